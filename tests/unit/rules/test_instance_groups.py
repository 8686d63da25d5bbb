"""CAP: options of one instance group, and a system group in a zone of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
HARD = {"key": "gpu", "effect": "NoSchedule"}
SOFT = {"key": "gpu", "effect": "PreferNoSchedule"}
DECODE = "hyperpod.groups.decode"
SYSTEM = "hyperpod.groups.system"
FALLBACK = f"{DECODE}.fallback_instance_types"
RANGE = "network.system_subnet_cidr"
ZONE = f"{SYSTEM}.zone_id"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "CAP009 Spot in a protected environment": (
        "CAP009",
        {"prod": {f"{DECODE}.capacity": "spot"}},
        f"{DECODE}.capacity",
        ["protected", "on_demand"],
        {"dev": {f"{DECODE}.capacity": "spot"}},
    ),
    "CAP010 Spot with a training plan": (
        "CAP010",
        {"dev": {f"{DECODE}.capacity": "spot", f"{DECODE}.training_plan_arn": PLAN}},
        f"{DECODE}.capacity",
        ["training plan"],
        {"dev": {f"{DECODE}.training_plan_arn": PLAN, "hyperpod.groups.prefill.capacity": "spot"}},
    ),
    "CAP011 Spot on the system group": (
        "CAP011",
        {"dev": {f"{SYSTEM}.capacity": "spot"}},
        f"{SYSTEM}.capacity",
        ["system group"],
        {"dev": {f"{SYSTEM}.capacity": "on_demand"}},
    ),
    "CAP012 system zone without a range": (
        "CAP012",
        {"dev": {ZONE: "usw2-az2"}},
        ZONE,
        ["usw2-az2 has no subnet", "system_subnet_cidr"],
        {"dev": {ZONE: "usw2-az2", RANGE: "10.2.0.0/20"}},
    ),
    "CAP012 range without a system zone": (
        "CAP012",
        {"dev": {RANGE: "10.2.0.0/20"}},
        RANGE,
        ["uses the GPU subnet"],
        {"dev": {ZONE: "usw2-az1"}},
    ),
    "CAP012 system zone without load balancers": (
        "CAP012",
        {
            "dev": {
                ZONE: "usw2-az3",
                RANGE: "10.2.0.0/20",
                "network.control_plane_zone_ids": ["usw2-az1", "usw2-az2"],
            }
        },
        ZONE,
        ["usw2-az1, usw2-az2"],
        {
            "dev": {
                ZONE: "usw2-az2",
                RANGE: "10.2.0.0/20",
                "network.control_plane_zone_ids": ["usw2-az1", "usw2-az2"],
            }
        },
    ),
    "CAP012 system zone of another region": (
        "CAP012",
        {"dev": {ZONE: "use1-az1", RANGE: "10.2.0.0/20"}},
        ZONE,
        ["us-west-2", "usw2-az2"],
        {"dev": {ZONE: "usw2-az4", RANGE: "10.2.0.0/20"}},
    ),
    "CAP013 taint that refuses workers": (
        "CAP013",
        {"dev": {f"{DECODE}.taints": [SOFT, HARD]}},
        f"{DECODE}.taints[1].effect",
        ["gpu:NoSchedule", "PreferNoSchedule"],
        {"dev": {f"{DECODE}.taints": [SOFT]}},
    ),
    "CAP013 taint that refuses add-ons": (
        "CAP013",
        {"dev": {f"{SYSTEM}.taints": [{"key": "system", "effect": "NoExecute"}]}},
        f"{SYSTEM}.taints[0].effect",
        ["system:NoExecute"],
        {"dev": {f"{SYSTEM}.taints": [{"key": "system"}]}},
    ),
    "CAP014 taints with deep health checks": (
        "CAP014",
        {"staging": {f"{DECODE}.taints": [SOFT]}},
        f"{DECODE}.taints",
        ["deep health checks"],
        {"staging": {f"{SYSTEM}.taints": [SOFT]}},
    ),
    "CAP015 fallback with fewer EFA devices": (
        "CAP015",
        {"dev": {FALLBACK: ["ml.p5en.48xlarge"]}},
        f"{FALLBACK}[0]",
        ["EFA devices 16, not 32"],
        {"dev": {f"{DECODE}.instance_type": "ml.p5en.48xlarge"}},
    ),
    "CAP015 fallback with less memory": (
        "CAP015",
        {
            "dev": {
                f"{DECODE}.instance_type": "ml.p6-b300.48xlarge",
                FALLBACK: ["ml.p5en.48xlarge"],
            }
        },
        f"{FALLBACK}[0]",
        ["bytes of GPU memory, fewer than"],
        {"dev": {f"{DECODE}.instance_type": "ml.p5en.48xlarge", FALLBACK: ["ml.p6-b300.48xlarge"]}},
    ),
    "CAP015 unknown fallback": (
        "CAP015",
        {"dev": {FALLBACK: ["ml.p9.48xlarge"]}},
        f"{FALLBACK}[0]",
        ["not in the instance facts"],
        {"dev": {FALLBACK: []}},
    ),
    "CAP015 fallback that the region lacks": (
        "CAP015",
        {"dev": {FALLBACK: ["ml.p5e.48xlarge"]}},
        f"{FALLBACK}[0]",
        ["not offered to HyperPod in us-west-2"],
        {"dev": {FALLBACK: []}},
    ),
    "CAP015 fallback beside a plan": (
        "CAP015",
        {
            "dev": {
                f"{DECODE}.instance_type": "ml.p5en.48xlarge",
                FALLBACK: ["ml.p6-b300.48xlarge"],
                f"{DECODE}.training_plan_arn": PLAN,
            }
        },
        f"{FALLBACK}[0]",
        ["a training plan reserves one type"],
        {"dev": {f"{DECODE}.training_plan_arn": PLAN}},
    ),
    "CAP015 fallback twice": (
        "CAP015",
        {"dev": {f"{SYSTEM}.fallback_instance_types": ["ml.c5.4xlarge"]}},
        f"{SYSTEM}.fallback_instance_types[0]",
        ["listed twice"],
        {"dev": {f"{SYSTEM}.fallback_instance_types": ["ml.c5.9xlarge"]}},
    ),
    "CAP015 system fallback of another architecture": (
        "CAP015",
        {
            "dev": {
                f"{SYSTEM}.instance_type": "ml.m6i.4xlarge",
                f"{SYSTEM}.fallback_instance_types": ["ml.m6g.4xlarge"],
            }
        },
        f"{SYSTEM}.fallback_instance_types[0]",
        ["architecture arm64, not amd64"],
        {"dev": {f"{SYSTEM}.fallback_instance_types": ["ml.c6i.4xlarge"]}},
    ),
    "CAP016 range inside the VPC's own": (
        "CAP016",
        {"dev": {ZONE: "usw2-az2", RANGE: "10.0.128.0/20"}},
        RANGE,
        ["overlaps vpc_cidr 10.0.0.0/16"],
        {"dev": {ZONE: "usw2-az2", RANGE: "10.2.128.0/20"}},
    ),
    "CAP016 range inside the GPU subnet": (
        "CAP016",
        {"dev": {ZONE: "usw2-az2", RANGE: "10.1.0.0/20"}},
        RANGE,
        ["overlaps gpu_subnet_cidr"],
        {"dev": {ZONE: "usw2-az2", RANGE: "10.2.0.0/20"}},
    ),
    "CAP016 P-16 too few addresses": (
        "CAP016",
        {"dev": {ZONE: "usw2-az2", RANGE: "10.2.0.0/27"}},
        RANGE,
        ["need 60 addresses", "has 27", "use a /25 or wider"],
        {"dev": {ZONE: "usw2-az2", RANGE: "10.2.0.0/25"}},
    ),
    "CAP017 volume beside NVMe": (
        "CAP017",
        {"dev": {f"{DECODE}.secondary_volume_gb": 500}},
        f"{DECODE}.secondary_volume_gb",
        ["NVMe"],
        {"dev": {f"{SYSTEM}.secondary_volume_gb": 200}},
    ),
}


@pytest.mark.parametrize(("id", "bad", "path", "says", "good"), CASES.values(), ids=CASES.keys())
def test_rule(
    one_rule: Callable[..., None],
    id: str,
    bad: dict[str, Any],
    path: str,
    says: list[str],
    good: dict[str, Any],
) -> None:
    one_rule(id, bad, path, says, good)


def test_a_system_group_elsewhere_leaves_its_addresses_to_the_gpus(check: Callable[..., list[Any]]) -> None:
    # Two ml.p5.48xlarge take 162 addresses, two ml.c5.4xlarge 60 more; a /24 has 251.
    small = {"network.gpu_subnet_cidr": "10.1.0.0/24", "hyperpod.groups.prefill.count": 2}

    assert [finding.id for finding in check(dev=small)] == ["NET001"]
    assert check(dev={**small, ZONE: "usw2-az2", RANGE: "10.2.0.0/24"}) == []


def test_addresses_count_the_hungriest_type_of_a_group(check: Callable[..., list[Any]]) -> None:
    few = {
        "network.gpu_subnet_cidr": "10.1.0.0/25",
        "hyperpod.groups.prefill.count": 0,
        f"{DECODE}.instance_type": "ml.p5en.48xlarge",
    }

    assert check(dev={**few, f"{SYSTEM}.count": 1, f"{SYSTEM}.instance_type": "ml.c5.9xlarge"}) == []
    hungry = {**few, f"{DECODE}.count": 1, FALLBACK: ["ml.p6-b300.48xlarge"]}
    (found,) = (finding for finding in check(dev=hungry) if finding.id == "NET001")
    assert "need 126 addresses" in found.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hyperpod.groups.decode.capacity", "reserved"),
        ("hyperpod.groups.decode.taints", [{"key": "-gpu"}]),
        ("hyperpod.groups.decode.taints", [{"key": "gpu", "effect": "Never"}]),
        ("hyperpod.groups.system.secondary_volume_gb", 0),
        ("hyperpod.maintenance", {"schedule": "cron(0 3 * * ? *)"}),
        ("hyperpod.maintenance", {"schedule": "0 3 * * 0"}),
        ("hyperpod.maintenance", {"schedule": "cron(0 3 ? * SUN *)", "wait_s": 3601}),
    ],
)
def test_values_that_the_service_refuses_are_wrong_values(
    check: Callable[..., list[Any]], key: str, value: object
) -> None:
    assert {finding.id for finding in check(dev={key: value})} == {"CFG003"}


@pytest.mark.parametrize(
    "schedule", ["cron(0 3 ? * SUN *)", "cron(30 22 1 */2 ? *)", "cron(5 4 ? * 7L 2027)"]
)
def test_maintenance_windows_that_the_service_takes(check: Callable[..., list[Any]], schedule: str) -> None:
    assert check(dev={"hyperpod.maintenance": {"schedule": schedule}}) == []
