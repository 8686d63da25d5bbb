"""CAP: zones, instance types, and whether replicas fit their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "CAP001 P-09 group in another zone": (
        "CAP001",
        {"dev": {"hyperpod.groups.decode.zone_id": "usw2-az2"}},
        "hyperpod.groups.decode.zone_id",
        ["gpu_zone_id = usw2-az1", "hyperpod.groups.decode.zone_id = usw2-az2"],
        {"dev": {"hyperpod.groups.decode.zone_id": "usw2-az1"}},
    ),
    "CAP001 P-03 plan in another zone": (
        "CAP001",
        {"dev": {"hyperpod.groups.prefill.training_plan_zone_id": "usw2-az4"}},
        "hyperpod.groups.prefill.training_plan_zone_id",
        ["usw2-az1", "usw2-az4"],
        {"dev": {"hyperpod.groups.prefill.training_plan_zone_id": "usw2-az1"}},
    ),
    "CAP001 P-09 model in another zone": (
        "CAP001",
        {"llama": {"dpd.topology": {"zone_id": "usw2-az3"}}},
        "dpd.topology.zone_id",
        ["dpd.topology.zone_id = usw2-az3", "gpu_zone_id = usw2-az1"],
        {"llama": {"dpd.topology": {"zone_id": "usw2-az1"}}},
    ),
    "CAP002 P-42 placement group with a plan": (
        "CAP002",
        {"dev": {"network.placement_group": "create", "hyperpod.groups.decode.training_plan_arn": PLAN}},
        "network.placement_group",
        ["training plan of decode", "set it to none"],
        {"dev": {"network.placement_group": "none", "hyperpod.groups.decode.training_plan_arn": PLAN}},
    ),
    "CAP003 P-43 placement group": (
        "CAP003",
        {"dev": {"network.placement_group": "create"}},
        "network.placement_group",
        ["cannot join"],
        {"dev": {"network.placement_group": "none"}},
    ),
    "CAP004 P-46 plan on the system group": (
        "CAP004",
        {"dev": {"hyperpod.groups.system.training_plan_arn": PLAN}},
        "hyperpod.groups.system.training_plan_arn",
        ["system group"],
        {"dev": {"hyperpod.groups.prefill.training_plan_arn": PLAN}},
    ),
    "CAP005 too many prefill replicas": (
        "CAP005",
        {"llama": {"dpd.prefill.replicas": 2, "dpd.routing.strategy": "roundrobin"}},
        "dpd.prefill.replicas",
        ["2 replicas of 8 GPUs", "1 x ml.p5.48xlarge", "at most 1"],
        {
            "llama": {
                "dpd.prefill.replicas": 2,
                "dpd.routing.strategy": "roundrobin",
                "serving.tensor_parallel": 4,
            }
        },
    ),
    "CAP005 too many colocated replicas": (
        "CAP005",
        {"llama": {"serving.mode": "colocated", "serving.replicas": 3, "serving.tensor_parallel": 4}},
        "serving.replicas",
        ["3 replicas of 4 GPUs", "at most 2"],
        {"llama": {"serving.mode": "colocated", "serving.replicas": 2, "serving.tensor_parallel": 4}},
    ),
    "CAP006 type without EFA": (
        "CAP006",
        {"dev": {"hyperpod.groups.prefill.instance_type": "ml.g5.48xlarge"}},
        "hyperpod.groups.prefill.instance_type",
        ["ml.g5.48xlarge", "ml.p5.48xlarge"],
        {"dev": {"hyperpod.groups.prefill.instance_type": "ml.p5en.48xlarge"}},
    ),
    "CAP006 P-27 type without its prefix": (
        "CAP006",
        {"dev": {"hyperpod.groups.decode.instance_type": "p5.48xlarge"}},
        "hyperpod.groups.decode.instance_type",
        ["write ml.p5.48xlarge"],
        {"dev": {"hyperpod.groups.decode.instance_type": "ml.p5.48xlarge"}},
    ),
    "CAP007 P-04 too few pods": (
        "CAP007",
        {"dev": {"hyperpod.groups.system": {"instance_type": "ml.m5.xlarge", "count": 1}}},
        "hyperpod.groups.system.count",
        ["1 x ml.m5.xlarge", "needs 13"],
        {"dev": {"hyperpod.groups.system": {"instance_type": "ml.c5.4xlarge", "count": 1}}},
    ),
    "CAP007 P-21 arm64": (
        "CAP007",
        {"dev": {"hyperpod.groups.system.instance_type": "ml.m6g.4xlarge"}},
        "hyperpod.groups.system.instance_type",
        ["not amd64", "ml.c5.4xlarge"],
        {"dev": {"hyperpod.groups.system.instance_type": "ml.m6i.4xlarge"}},
    ),
    "CAP007 unknown type": (
        "CAP007",
        {"dev": {"hyperpod.groups.system.instance_type": "ml.c9.huge"}},
        "hyperpod.groups.system.instance_type",
        ["not in the instance facts"],
        {"dev": {"hyperpod.groups.system.instance_type": "ml.c5.9xlarge"}},
    ),
    "CAP008 zone of another region": (
        "CAP008",
        {"dev": {"gpu_zone_id": "use1-az6"}},
        "gpu_zone_id",
        ["use1-az6", "us-west-2", "usw2-az1"],
        {"dev": {"gpu_zone_id": "usw2-az2"}},
    ),
    "CAP008 P-15 local zones have longer ids": (
        "CAP008",
        {"dev": {"gpu_zone_id": "use1-lax1-az1"}},
        "gpu_zone_id",
        ["use1-lax1-az1"],
        {"dev": {"gpu_zone_id": "usw2-lax1-az1"}},
    ),
    "CAP008 control plane where EKS has none": (
        "CAP008",
        {"prod": {"network.control_plane_zone_ids": ["use1-az1", "use1-az3"]}},
        "network.control_plane_zone_ids[1]",
        ["use1-az3"],
        {"prod": {"network.control_plane_zone_ids": ["use1-az1", "use1-az2"]}},
    ),
    "CAP008 control-plane zone twice": (
        "CAP008",
        {"dev": {"network.control_plane_zone_ids": ["usw2-az1", "usw2-az1"]}},
        "network.control_plane_zone_ids[1]",
        ["usw2-az1"],
        {"dev": {"network.control_plane_zone_ids": ["usw2-az1", "usw2-az2"]}},
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


def test_a_group_of_no_nodes_is_a_dry_bring_up(check: Callable[..., list[Any]]) -> None:
    assert check(dev={"hyperpod.groups.prefill.count": 0, "hyperpod.groups.decode.count": 0}) == []


def test_more_nodes_than_replicas_are_fine(check: Callable[..., list[Any]]) -> None:
    assert check(dev={"hyperpod.groups.prefill.count": 5}) == []
