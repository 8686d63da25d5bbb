"""NET and SEC: addresses, ranges, regions and exposure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "NET001 P-16 subnet too small": (
        "NET001",
        {"dev": {"network.gpu_subnet_cidr": "10.1.0.0/25"}},
        "network.gpu_subnet_cidr",
        ["2 x ml.c5.4xlarge", "1 x ml.p5.48xlarge", "10.1.0.0/25 has 123", "/24"],
        {"dev": {"network.gpu_subnet_cidr": "10.1.0.0/24", "hyperpod.groups.system.count": 1}},
    ),
    "NET001 more nodes than any subnet holds": (
        "NET001",
        {"dev": {"hyperpod.groups.prefill.count": 6000}},
        "network.gpu_subnet_cidr",
        ["6000 x ml.p5.48xlarge", "fewer nodes"],
        {"dev": {"hyperpod.groups.prefill.count": 700}},
    ),
    "NET002 inside the primary range": (
        "NET002",
        {"dev": {"network.gpu_subnet_cidr": "10.0.128.0/17"}},
        "network.gpu_subnet_cidr",
        ["10.0.128.0/17 overlaps vpc_cidr 10.0.0.0/16"],
        {"dev": {"network.gpu_subnet_cidr": "10.2.0.0/17"}},
    ),
    "NET012 two private blocks": (
        "NET012",
        {"dev": {"network.gpu_subnet_cidr": "172.16.0.0/16"}},
        "network.gpu_subnet_cidr",
        ["AWS adds no range of 172.16.0.0/12 to a VPC that has 10.0.0.0/16"],
        {"dev": {"network.gpu_subnet_cidr": "100.64.0.0/16"}},
    ),
    "NET012 first half of 10.0.0.0/15 after the second": (
        "NET012",
        {"dev": {"network.vpc_cidr": "10.1.0.0/16", "network.gpu_subnet_cidr": "10.0.0.0/16"}},
        "network.gpu_subnet_cidr",
        ["no range of 10.0.0.0/16 to a VPC that has 10.1.0.0/16"],
        {"dev": {"network.vpc_cidr": "10.0.0.0/16", "network.gpu_subnet_cidr": "10.1.0.0/16"}},
    ),
    "NET012 private beside public": (
        "NET012",
        {"dev": {"network.vpc_cidr": "100.64.0.0/16", "network.gpu_subnet_cidr": "192.168.0.0/16"}},
        "network.gpu_subnet_cidr",
        ["192.168.0.0/16"],
        {"dev": {"network.vpc_cidr": "100.64.0.0/16", "network.gpu_subnet_cidr": "100.65.0.0/16"}},
    ),
    "NET005 no HyperPod": (
        "NET005",
        {"dev": {"region": "eu-west-3", "gpu_zone_id": "euw3-az1"}},
        "region",
        ["eu-west-3", "us-west-2"],
        {"dev": {}},
    ),
    "NET005 no image of the operator": (
        "NET005",
        {"dev": {"region": "ca-central-1", "gpu_zone_id": "cac1-az1"}},
        "region",
        ["ca-central-1 does not offer the inference operator's images"],
        {"dev": {}},
    ),
    "SEC001 the whole internet": (
        "SEC001",
        {"dev": {"kubernetes.public_access_cidrs": ["203.0.113.0/24", "0.0.0.0/0"]}},
        "kubernetes.public_access_cidrs[1]",
        ["0.0.0.0/0"],
        {"dev": {"kubernetes.public_access_cidrs": ["203.0.113.0/24"]}},
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


def test_both_halves_of_the_internet_are_two_findings(check: Callable[..., list[Any]]) -> None:
    found = check(dev={"kubernetes.public_access_cidrs": ["0.0.0.0/1", "128.0.0.0/1"]})
    assert [item.id for item in found] == ["SEC001", "SEC001"]


def test_a_region_without_the_type_names_regions_that_have_it(check: Callable[..., list[Any]]) -> None:
    (found,) = check(
        dev={
            "region": "us-west-1",
            "gpu_zone_id": "usw1-az1",
            "hyperpod.groups.decode.instance_type": "ml.p6-b300.48xlarge",
            "hyperpod.groups.prefill.count": 0,
            "hyperpod.groups.prefill.instance_type": "ml.p6-b300.48xlarge",
        }
    )[:1]
    assert found.id == "NET005"
    assert "us-west-2" in found.text()
