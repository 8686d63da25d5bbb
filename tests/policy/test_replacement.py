"""What growth may not touch: no change of size, image, model, label or version replaces what holds state.

Which properties cannot change in place is what the CloudFormation registry says (createOnlyProperties),
as cfn-lint ships it; there is no list of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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


def stateful(built: Built) -> Iterator[tuple[str, Template]]:
    for stack, template in built.items():
        for name, resource in template["Resources"].items():
            if resource["Type"] in STATEFUL:
                yield f"{stack}/{name}", resource


def create_only(resource: Template, registry: Registry) -> dict[str, Any]:
    """Return the values of the properties that cannot change in place."""
    schema = registry(resource["Type"])
    assert schema is not None, resource["Type"]
    values: dict[str, Any] = {}
    for pointer in schema.get("createOnlyProperties", []):
        at: Any = resource.get("Properties", {})
        for part in pointer.removeprefix("/properties/").split("/"):
            at = at.get(part) if isinstance(at, dict) else None
        values[pointer] = at
    return values


def fixed(built: Built, registry: Registry) -> dict[str, dict[str, Any]]:
    return {name: create_only(resource, registry) for name, resource in stateful(built)}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nothing_with_state_is_replaced_or_lost(
    build: Callable[..., Built], before: Built, registry: Registry, change: dict[str, object]
) -> None:
    after = fixed(build("dev", change), registry)

    for name, values in fixed(before, registry).items():
        assert after[name] == values, name


def test_more_models_add_stacks_and_change_nothing_with_state(
    build: Callable[..., Built], before: Built, registry: Registry
) -> None:
    after = build("dev", models=["llama-3.3-70b", "qwen2.5-72b", "llama-3.1-405b"])

    assert fixed(after, registry) == fixed(before, registry)
    assert {name for name in after if name.startswith("model-")} == {
        "model-llama-3-3-70b",
        "model-qwen2-5-72b",
        "model-llama-3-1-405b",
    }


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({"network.vpc_cidr": "10.9.0.0/16"}, "network/NetworkVpc"),
        ({"gpu_zone_id": "usw2-az2"}, "network/NetworkGpuSubnet"),
        ({"account": "111122223333"}, "weights/Weights"),
    ],
)
def test_the_comparison_sees_a_replacement(
    build: Callable[..., Built],
    before: Built,
    registry: Registry,
    change: dict[str, object],
    replaced: str,
) -> None:
    after = fixed(build("dev", change), registry)

    differing = [name for name, values in fixed(before, registry).items() if after.get(name) != values]
    assert any(name.startswith(replaced) for name in differing), differing


def test_a_new_kubernetes_version_keeps_the_cluster(registry: Registry) -> None:
    schema = registry("AWS::EKS::Cluster")
    assert schema is not None

    assert "Version" in schema["properties"]
    assert "/properties/Version" not in schema["createOnlyProperties"]


def test_names_of_what_holds_state_are_a_contract(before: Built) -> None:
    """CloudFormation knows resources by these ids: a changed one is data, a network or a cluster lost.

    A line may be added; one that goes away needs a migration, and a word in CHANGELOG.md.
    """
    names = sorted(f"{resource['Type']} {name}" for name, resource in stateful(before))
    if os.environ.get("UPDATE_GOLDEN"):
        PINNED.write_text("\n".join(names) + "\n", encoding="utf-8")

    assert PINNED.read_text(encoding="utf-8").splitlines() == names
