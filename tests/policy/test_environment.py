"""The stacks of an environment: their order, their protection, and that synthesis repeats itself."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def assembly(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the whole assembly of dev and prod, with CDK's own validation."""
    use_bundled_node()
    from stacks.environment import synth_app

    return Path(synth_app(catalog, ["dev", "prod"], tmp_path_factory.mktemp("first")).directory)


@pytest.fixture(scope="module")
def stacks(assembly: Path) -> Manifest:
    manifest = json.loads((assembly / "manifest.json").read_text())
    return {
        name: artifact
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }


def test_deployment_order_is_a_chain(stacks: Manifest) -> None:
    def needs(name: str) -> set[str]:
        return {other for other in stacks[name]["dependencies"] if not other.endswith(".assets")}

    model = "dpd-dev-model-llama-3-3-70b"
    assert needs("dpd-dev-security") == set()
    assert needs("dpd-dev-network") == {"dpd-dev-security"}
    assert needs("dpd-dev-weights") == {"dpd-dev-security"}
    assert needs("dpd-dev-cluster") == {"dpd-dev-network", "dpd-dev-security"}
    assert needs("dpd-dev-hyperpod") >= {"dpd-dev-cluster"}
    assert needs("dpd-dev-operator") >= {"dpd-dev-hyperpod", "dpd-dev-weights"}
    assert needs(model) >= {"dpd-dev-operator"}


def test_environments_do_not_depend_on_each_other(stacks: Manifest) -> None:
    for name, artifact in stacks.items():
        prefix = "-".join(name.split("-")[:2])
        assert all(other.startswith(prefix) for other in artifact["dependencies"]), name


def test_only_protected_environments_refuse_termination(stacks: Manifest) -> None:
    protected = {name for name, item in stacks.items() if item["properties"].get("terminationProtection")}
    assert protected == {name for name in stacks if name.startswith("dpd-prod-")}


def test_templates_fit_any_account(assembly: Path, stacks: Manifest) -> None:
    assert {item["environment"] for item in stacks.values()} == {
        "aws://unknown-account/us-west-2",
        "aws://unknown-account/us-east-1",
    }


def test_synthesis_repeats_itself_byte_for_byte(catalog: Catalog, assembly: Path, tmp_path: Path) -> None:
    from stacks.environment import synth_app

    again = Path(synth_app(catalog, ["dev", "prod"], tmp_path).directory)
    files = {path.relative_to(assembly) for path in assembly.rglob("*") if path.is_file()}
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    for file in sorted(files):
        assert (assembly / file).read_bytes() == (again / file).read_bytes(), file


def test_choices_of_the_environment_file_reach_the_templates(catalog: Catalog, tmp_path: Path) -> None:
    use_bundled_node()
    from stacks.environment import build_environment, new_app

    dev = catalog.environments["dev"].value
    assert dev is not None
    assert catalog.facts is not None
    network = dev.network.model_copy(update={"placement_group": "create"})
    kubernetes = dev.kubernetes.model_copy(update={"public_access_cidrs": (IPv4Network("203.0.113.0/24"),)})
    hyperpod = dev.hyperpod.model_copy(update={"chart_commit": "a" * 40, "chart_archive_sha256": "b" * 64})
    chosen = dev.model_copy(
        update={
            "account": "111122223333",
            "network": network,
            "kubernetes": kubernetes,
            "hyperpod": hyperpod,
            "addons": {"coredns": "v1.13.0-eksbuild.1"},
        }
    )
    app = new_app(tmp_path, builtin_cloud_formation_validation=False)
    build_environment(app, chosen, [], catalog.facts)
    assembly = app.synth()

    def properties(stack: str, kind: str) -> list[Manifest]:
        resources = assembly.get_stack_by_name(f"dpd-dev-{stack}").template["Resources"].values()
        return [item["Properties"] for item in resources if item["Type"] == kind]

    assert properties("network", "AWS::EC2::PlacementGroup")[0]["Strategy"] == "cluster"
    access = properties("cluster", "AWS::EKS::Cluster")[0]["ResourcesVpcConfig"]
    assert access["EndpointPublicAccess"] is True
    assert access["EndpointPrivateAccess"] is True
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24"]
    versions = {row["AddonName"]: row["AddonVersion"] for row in properties("operator", "AWS::EKS::Addon")}
    assert versions["coredns"] == "v1.13.0-eksbuild.1"
    variables = properties("hyperpod", "Custom::HyperPodBaseChart")[0]["Variables"]
    assert (variables["COMMIT"], variables["ARCHIVE_SHA256"]) == ("a" * 40, "b" * 64)
    assert (
        properties("weights", "AWS::S3::Bucket")[0]["BucketName"] == "dpd-dev-weights-111122223333-us-west-2"
    )
