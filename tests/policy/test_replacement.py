"""What growth may not touch: no change of size, image, model, label or version replaces what holds state.

Which properties cannot change in place is what the CloudFormation registry says (createOnlyProperties),
as cfn-lint ships it; there is no list of ours. What such a property names is followed, since a subnet of
another VPC is another subnet.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

Template = dict[str, Any]
Built = dict[str, Template]
Registry = Callable[[str], dict[str, Any] | None]

PINNED = Path(__file__).parents[1] / "golden/stateful-resources.dev.txt"
# What loses data, or takes hours, money or a name with it when it is replaced.
STATEFUL = {
    "AWS::EC2::EIP",
    "AWS::EC2::NatGateway",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCCidrBlock",
    "AWS::EKS::Cluster",
    "AWS::IAM::OIDCProvider",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
}
CHANGES: dict[str, dict[str, object]] = {
    "more nodes": {
        "hyperpod.groups.system.count": 4,
        "hyperpod.groups.prefill.count": 5,
        "hyperpod.groups.decode.count": 3,
    },
    "no GPU nodes": {"hyperpod.groups.prefill.count": 0, "hyperpod.groups.decode.count": 0},
    "another instance type": {"hyperpod.groups.decode.instance_type": "ml.p5en.48xlarge"},
    "a fallback type": {"hyperpod.groups.decode.fallback_instance_types": ["ml.p5e.48xlarge"]},
    "Spot": {"hyperpod.groups.decode.capacity": "spot"},
    "labels": {"hyperpod.groups.decode.labels": {"team": "search"}},
    "taints": {"hyperpod.groups.decode.taints": [{"key": "gpu"}]},
    "a volume": {"hyperpod.groups.system.secondary_volume_gb": 200},
    "a maintenance window": {"hyperpod.maintenance": {"schedule": "cron(0 3 ? * SUN *)"}},
    "recovery and checks": {
        "hyperpod.node_recovery": "none",
        "hyperpod.deep_health_checks": ["InstanceStress"],
    },
    "operator version": {"operator.addon_version": "v1.5.0-eksbuild.1"},
    "add-on version": {"addons": {"cert-manager": "v1.20.2-eksbuild.3"}},
    "another chart": {"hyperpod.chart_commit": "a" * 40},
    "people": {"kubernetes.admin_arns": ["arn:aws:iam::111122223333:role/people"]},
    "open endpoint": {"kubernetes.public_access_cidrs": ["203.0.113.0/24"]},
    "tags": {"tags": {"team": "search", "cost-center": "42"}},
    "budget and schedule": {
        "budget": {"monthly_usd": 1000, "emails": ["ml@example.com"]},
        "schedule": {"down": "cron(0 20 ? * * *)", "up": "cron(0 7 ? * * *)"},
    },
    "protection": {"protected": True},
}


@pytest.fixture(scope="module")
def before(build: Callable[..., Built]) -> Built:
    return build("dev")


def every(built: Built) -> Iterator[tuple[str, Template]]:
    for stack, template in built.items():
        for name, resource in template["Resources"].items():
            yield f"{stack}/{name}", resource


def stateful(built: Built) -> dict[str, Template]:
    return {name: resource for name, resource in every(built) if resource["Type"] in STATEFUL}


def create_only(resource: Template, registry: Registry) -> list[Any]:
    """Return the values that cannot change in place; of a custom resource any may give another one."""
    schema = registry(resource["Type"])
    properties = resource.get("Properties", {})
    if schema is None:
        return [properties]
    pointers = schema.get("createOnlyProperties", [])
    return [at(properties, pointer.removeprefix("/properties/").split("/")) for pointer in pointers]


def at(value: Any, path: Sequence[str]) -> Any:
    """Follow a pointer, in which ``*`` is each item of an array; None is where nothing stands."""
    if not path:
        return value
    if path[0] == "*":
        return [at(item, path[1:]) for item in value or []]
    return at(value.get(path[0]), path[1:]) if isinstance(value, dict) else None


def references(value: Any, stack: str, exports: dict[str, set[str]]) -> set[str]:
    """Return the resources that a value names: by Ref, Fn::GetAtt or Fn::Sub, or through another stack."""
    if isinstance(value, list):
        return set().union(*(references(item, stack, exports) for item in value))
    if not isinstance(value, dict):
        return set()
    found = references(list(value.values()), stack, exports)
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            found.add(f"{stack}/{name}")
        case {"Fn::Sub": str(text)} | {"Fn::Sub": [str(text), *_]}:
            found |= {f"{stack}/{name}" for name in re.findall(r"\$\{(\w+)", text)}
        case {"Fn::ImportValue": str(name)}:
            found |= exports[name]
        case _:
            pass
    return found


def replaced(before: Built, after: Built, registry: Registry) -> set[str]:
    """Return what of ``before`` is gone, or replaced: by a value of its own, or by what that value names."""
    new = dict(every(after))
    exports = {
        output["Export"]["Name"]: references(output["Value"], stack, {})
        for stack, template in after.items()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    }
    gone: set[str] = set()
    names: dict[str, set[str]] = {}
    for name, resource in every(before):
        kept = name in new and resource["Type"] == new[name]["Type"]
        if not kept or create_only(resource, registry) != create_only(new[name], registry):
            gone.add(name)
        else:
            names[name] = references(create_only(new[name], registry), name.partition("/")[0], exports)
    while further := {name for name, named in names.items() if name not in gone and named & gone}:
        gone |= further
    return gone


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nothing_with_state_is_replaced_or_lost(
    build: Callable[..., Built], before: Built, registry: Registry, change: dict[str, object]
) -> None:
    assert replaced(before, build("dev", change), registry) & set(stateful(before)) == set()


def test_a_new_kubernetes_version_replaces_nothing_with_state(
    build: Callable[..., Built], before: Built, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The layer of each version is a package of its own, of which one is installed. kubectl may differ from
    # the server by one minor version.
    layer = importlib.import_module("aws_cdk.lambda_layer_kubectl_v34")
    monkeypatch.setitem(sys.modules, "aws_cdk.lambda_layer_kubectl_v35", layer)
    after = build("dev", {"kubernetes.version": "1.35"})

    assert after["cluster"] != before["cluster"]
    assert replaced(before, after, registry) & set(stateful(before)) == set()


def test_another_image_touches_the_model_alone(
    build: Callable[..., Built], before: Built, registry: Registry
) -> None:
    after = build("dev", image="lmcache-v0.4.3")

    assert {stack for stack in before if before[stack] != after[stack]} == {"model-llama-3-3-70b"}
    assert replaced(before, after, registry) & set(stateful(before)) == set()


def test_more_models_add_stacks_and_change_nothing_with_state(
    build: Callable[..., Built], before: Built, registry: Registry
) -> None:
    after = build("dev", models=["llama-3.3-70b", "qwen2.5-72b", "llama-3.1-405b"])

    assert replaced(before, after, registry) & set(stateful(before)) == set()
    assert {name for name in after if name.startswith("model-")} == {
        "model-llama-3-3-70b",
        "model-qwen2-5-72b",
        "model-llama-3-1-405b",
    }


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"network.vpc_cidr": "10.9.0.0/16"}, {"VPC", "Subnet", "SecurityGroup", "NatGateway"}),
        ({"gpu_zone_id": "usw2-az2"}, {"Subnet", "Cluster"}),
        ({"account": "111122223333"}, {"Bucket"}),
    ],
    ids=["range", "zone", "account"],
)
def test_the_comparison_sees_a_replacement_and_what_follows_from_it(
    build: Callable[..., Built],
    before: Built,
    registry: Registry,
    change: dict[str, object],
    seen: set[str],
) -> None:
    found = replaced(before, build("dev", change), registry)

    assert seen <= {stateful(before)[name]["Type"].split("::")[-1] for name in found & set(stateful(before))}


def test_pointers_reach_into_arrays() -> None:
    properties = {"Nodes": [{"Id": 1, "Port": 8}, {"Id": 2}], "Eks": {"Arn": "a"}}

    assert at(properties, ["Nodes", "*", "Id"]) == [1, 2]
    assert at(properties, ["Eks", "Arn"]) == "a"
    assert at(properties, ["Slurm", "Id"]) is None
    assert at({}, ["Nodes", "*", "Id"]) == []


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Vpc"},
        {"Fn::GetAtt": ["Vpc", "CidrBlock"]},
        {"Fn::Join": ["", ["vpc/", {"Ref": "Vpc"}]]},
        {"Fn::Sub": "vpc/${Vpc.CidrBlock}"},
        [{"Id": {"Fn::ImportValue": "dpd-dev-network:Vpc"}}],
    ],
)
def test_each_way_to_name_a_resource_is_followed(value: Any) -> None:
    assert references(value, "network", {"dpd-dev-network:Vpc": {"network/Vpc"}}) == {"network/Vpc"}


def test_names_of_what_holds_state_are_a_contract(before: Built) -> None:
    """CloudFormation knows resources by these ids: a changed one is data, a network or a cluster lost.

    A line may be added; one that goes away needs a migration, and a word in CHANGELOG.md.
    """
    names = sorted(f"{resource['Type']} {name}" for name, resource in stateful(before).items())
    if os.environ.get("UPDATE_GOLDEN"):
        PINNED.write_text("\n".join(names) + "\n", encoding="utf-8")

    assert PINNED.read_text(encoding="utf-8").splitlines() == names
