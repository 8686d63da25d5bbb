"""Every validator runs over every environment, finds nothing unexplained, and can find something."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.selection import Selection
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd.synth import synthesise
from dpd.validation import ignored, validate_bundle
from dpd.validation.manifests import CRD_VARIABLE

ROOT = Path(__file__).parents[2]
CRD = Path(os.environ.get(CRD_VARIABLE, "not given"))
NAMES = ("dev", "prod", "staging")


@pytest.fixture(scope="module")
def bundles(catalog: Catalog, facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the bundle of every environment."""
    out = tmp_path_factory.mktemp("dist")
    written, findings = synthesise(catalog, facts, Selection(NAMES, None), out, validate=False)
    assert (sorted(path.name for path in written), findings) == (sorted(NAMES), [])
    return out


def environment(catalog: Catalog, name: str) -> Environment:
    value = catalog.environments[name].value
    assert value is not None
    return value


@pytest.fixture
def dev(bundles: Path, tmp_path: Path) -> Path:
    """Return a copy of dev's bundle that a test may break."""
    return Path(shutil.copytree(bundles / "dev", tmp_path / "dev"))


Broken = Callable[[str, Callable[[dict[str, Any]], object]], list[Finding]]


@pytest.fixture
def broken(dev: Path, catalog: Catalog, facts: Facts) -> Broken:
    """Return a function that edits one template of dev and validates the bundle."""

    def run(stack: str, edit: Callable[[dict[str, Any]], object]) -> list[Finding]:
        path = dev / "cdk" / f"dpd-dev-{stack}.template.json"
        template = json.loads(path.read_text())
        edit(template["Resources"])
        path.write_text(json.dumps(template, indent=1))
        for other in (dev / "cdk").glob("*.template.json"):
            if other != path:
                other.unlink()
        return validate_bundle(dev, environment(catalog, "dev"), facts)

    return run


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in resources.values() if item["Type"] == kind)["Properties"]


def test_every_environment_validates_and_no_explanation_is_stale(
    bundles: Path, site_bundles: Any, catalog: Catalog, facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: set[str] = set()
    match = ignored.Ignored.match

    def remember(self: ignored.Ignored, *args: Any) -> ignored.IgnoredRow | None:
        row = match(self, *args)
        used.update([f"{args[0]} {row.rule} {row.resource}"] if row else [])
        return row

    monkeypatch.setattr(ignored.Ignored, "match", remember)
    every = [(bundles / name, environment(catalog, name)) for name in NAMES]
    every += [
        (site_bundles.folder / name, environment(site_bundles.catalog, name))
        for name in ("brought", "closed")
    ]
    for folder, built in every:
        findings = validate_bundle(folder, built, facts)
        expected = [] if CRD.exists() else ["VAL004"]
        assert [finding.id for finding in findings] == expected, [finding.text() for finding in findings]
    rows = ignored.load_ignored()[0].rows
    assert used == {f"{tool} {row.rule} {row.resource}" for row in rows for tool in row.tools}


def test_explanations_have_reasons() -> None:
    rows, findings = ignored.load_ignored()
    assert findings == []
    assert all(len(row.reason) > 40 for row in rows.rows)


BREAKAGES: dict[str, tuple[str, Callable[[dict[str, Any]], object], str, str]] = {
    "schema: number out of range": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster")["InstanceGroups"][0].update(InstanceCount=9999),
        "VAL001",
        "6758",
    ),
    "schema: unknown property": (
        "network",
        lambda r: of_type(r, "AWS::EC2::VPC").update(CidrBlok="10.0.0.0/16"),
        "VAL001",
        "CidrBlok",
    ),
    "cfn-lint reads the same": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster").update(NodeProvisioningMode="Continous"),
        "VAL003",
        "Continous",
    ),
    "cfn-lint: instance type of no region": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster")["InstanceGroups"][1].update(
            InstanceType="ml.p5.49xlarge"
        ),
        "VAL003",
        "ml.p5.49xlarge",
    ),
    "P-02 no egress to itself": (
        "network",
        lambda r: [r.pop(k) for k in list(r) if "DestinationSecurityGroupId" in r[k].get("Properties", {})],
        "VAL002",
        "DPD_EFA_SELF_EGRESS",
    ),
    "egress to itself for TCP alone": (
        "network",
        lambda r: next(
            item["Properties"]
            for item in r.values()
            if "DestinationSecurityGroupId" in item.get("Properties", {})
        ).update(IpProtocol="tcp", FromPort=0, ToPort=65535),
        "VAL002",
        "DPD_EFA_SELF_EGRESS",
    ),
    "ingress from everywhere": (
        "network",
        lambda r: r.update(
            World={
                "Type": "AWS::EC2::SecurityGroupIngress",
                "Properties": {
                    "GroupId": "sg-0123456789abcdef0",
                    "IpProtocol": "tcp",
                    "FromPort": 443,
                    "ToPort": 443,
                    "CidrIp": "0.0.0.0/0",
                },
            }
        ),
        "VAL002",
        "DPD_NO_WORLD_INGRESS",
    ),
    "ingress from everywhere, inline": (
        "network",
        lambda r: of_type(r, "AWS::EC2::SecurityGroup").update(
            SecurityGroupIngress=[{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}]
        ),
        "VAL002",
        "DPD_NO_WORLD_INGRESS_INLINE",
    ),
    "P-12 no lifecycle script": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster")["InstanceGroups"][2].pop("LifeCycleConfig"),
        "VAL002",
        "DPD_LIFECYCLE_ALWAYS",
    ),
    "cluster completes before nodes": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster")["InstanceGroups"][0].pop("MinInstanceCount"),
        "VAL002",
        "DPD_NO_PLAN_ON_SYSTEM",
    ),
    "not continuous": (
        "hyperpod",
        lambda r: of_type(r, "AWS::SageMaker::Cluster").pop("NodeProvisioningMode"),
        "VAL002",
        "DPD_ORCHESTRATED_BY_EKS",
    ),
    "P-13 authentication by ConfigMap": (
        "cluster",
        lambda r: of_type(r, "AWS::EKS::Cluster")["AccessConfig"].update(AuthenticationMode="CONFIG_MAP"),
        "VAL002",
        "DPD_EKS_ACCESS",
    ),
    "P-18 add-on without version": (
        "operator",
        lambda r: of_type(r, "AWS::EKS::Addon").pop("AddonVersion"),
        "VAL002",
        "DPD_ADDONS_PINNED",
    ),
}


@pytest.mark.parametrize(("stack", "edit", "id", "text"), BREAKAGES.values(), ids=BREAKAGES.keys())
def test_a_broken_template_is_found(
    broken: Broken, stack: str, edit: Callable[[dict[str, Any]], object], id: str, text: str
) -> None:
    errors = [finding for finding in broken(stack, edit) if finding.severity == Severity.ERROR]
    assert any(finding.id == id and text in finding.text() for finding in errors), errors


def inference_addon(resources: dict[str, Any]) -> dict[str, Any]:
    return next(
        item["Properties"]
        for item in resources.values()
        if item["Type"] == "AWS::EKS::Addon" and item["Properties"]["AddonName"].endswith("-inference")
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ('{"executionRoleArn": "a"', "is not JSON"),
        ('{"executionRoleArn": "a", "tlsCertificateS3Bucket": "b"}', "lacks `hyperpodClusterArn`"),
        (
            '{"executionRoleArn": "a", "tlsCertificateS3Bucket": "b", "hyperpodClusterArn": "c", "albb": {}}',
            "has no key `albb`",
        ),
    ],
)
def test_add_on_values_that_no_schema_reads_are_read(broken: Broken, values: str, text: str) -> None:
    findings = broken("operator", lambda r: inference_addon(r).update(ConfigurationValues=values))
    assert [finding.id for finding in findings if text in finding.message] == ["VAL006"]


@pytest.mark.parametrize(
    ("edit", "id", "text"),
    [
        (lambda docs: docs[0]["metadata"].update(labls={}), "VAL005", "labls"),
        (lambda docs: docs[1]["spec"]["pdSpec"].update(decodeSpec={}), "VAL004", "decodingSpec"),
        (lambda docs: docs[1]["spec"]["pdSpec"]["prefillSpec"].update(replicas=0), "VAL004", "replicas"),
    ],
    ids=["namespace", "unknown field", "out of range"],
)
def test_a_broken_manifest_is_found(
    dev: Path, catalog: Catalog, facts: Facts, edit: Callable[[list[Any]], object], id: str, text: str
) -> None:
    if id == "VAL004" and not CRD.exists():
        pytest.skip(f"set {CRD_VARIABLE} to the file of the operator's definition")
    path = next((dev / "manifests").glob("*.yaml"))
    documents = list(yaml.safe_load_all(path.read_text()))
    edit(documents)
    path.write_text(yaml.safe_dump_all(documents))
    for template in (dev / "cdk").glob("*.template.json"):
        template.unlink()
    findings = validate_bundle(dev, environment(catalog, "dev"), facts)
    errors = [finding for finding in findings if finding.severity == Severity.ERROR]
    assert [(finding.id, text in finding.message) for finding in errors] == [(id, True)]


def test_every_guard_rule_has_a_breakage() -> None:
    rules = {
        line.split()[1]
        for path in (ROOT / "policy").glob("*.guard")
        for line in path.read_text().splitlines()
        if line.startswith("rule ")
    }
    assert rules == {text for _, _, id, text in BREAKAGES.values() if id == "VAL002"}
