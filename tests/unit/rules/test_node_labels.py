"""LBL: node selectors against what nodes carry (P-24), and placement groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpd.finding import Finding

Check = Callable[..., list[Finding]]

LAYER = "topology.k8s.aws/network-node-layer-"


def selector(key: str, value: str) -> dict[str | tuple[str, ...], Any]:
    return {("dpd", "prefill", "node_selector", key): value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{LAYER}3", "nn-0123"),
        ("topology.kubernetes.io/zone", "us-west-2a"),
        ("topology.kubernetes.io/region", "us-west-2"),
        ("sagemaker.amazonaws.com/instance-group-name", "prefill"),
        ("sagemaker.amazonaws.com/cluster-name", "dpd-dev"),
        ("node.kubernetes.io/instance-type", "ml.p5.48xlarge"),
        ("hyperpod-dpd/role", "prefill"),
        ("kubernetes.io/arch", "amd64"),
    ],
)
def test_labels_of_the_group_may_be_selected(check: Check, key: str, value: str) -> None:
    assert check(llama=selector(key, value)) == []


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (f"{LAYER}4", "nn-0123", "ml.p5.48xlarge has 3 network layers, and this is layer 4"),
        (f"{LAYER}5", "nn-0123", "no node of group prefill has a label"),
        ("topology.kubernetes.io/region", "us-east-1", "=us-west-2"),
        ("sagemaker.amazonaws.com/instance-group-name", "decode", "=prefill"),
        ("hyperpod-dpd/role", "decode", "hyperpod-dpd/role=prefill"),
        ("kubernetes.io/arch", "arm64", "=amd64"),
        ("node.kubernetes.io/instance-type", "ml.p5en.48xlarge", "=ml.p5.48xlarge"),
        ("team", "search", "no node of group prefill has a label `team`"),
    ],
    ids=lambda value: value if value.startswith(("topology", "team")) else "",
)
def test_p24_selectors_without_a_node_are_refused(check: Check, key: str, value: str, says: str) -> None:
    (finding,) = check(llama=selector(key, value))
    assert finding.id == "LBL001"
    assert says in finding.message


def test_four_layers_exist_where_the_instance_type_has_them(check: Check) -> None:
    findings = check(
        dev={"hyperpod.groups.prefill.instance_type": "ml.p6-b200.48xlarge"},
        llama=selector(f"{LAYER}4", "nn-0123"),
    )
    assert "LBL001" not in {finding.id for finding in findings}


def test_own_labels_of_the_group_count(check: Check) -> None:
    dev = {"hyperpod.groups.prefill.labels": {"team": "search"}}
    assert check(dev=dev, llama=selector("team", "search")) == []
    (finding,) = check(dev=dev, llama=selector("team", "ads"))
    assert (finding.id, finding.allowed) == ("LBL001", ["search"])


def test_a_missing_prefix_is_reported_once(check: Check) -> None:
    (finding,) = check(llama=selector("node.kubernetes.io/instance-type", "p5.48xlarge"))
    assert finding.id == "EFA006"


def test_a_near_miss_is_proposed(check: Check) -> None:
    (finding,) = check(llama=selector("topology.kubernetes.io/zon", "us-west-2a"))
    assert "did you mean `topology.kubernetes.io/zone`?" in finding.fix


def test_the_placement_group_of_the_environment_must_exist(check: Check) -> None:
    asked = {"dpd.topology.placement_group": "environment"}
    (finding,) = check(llama=asked)
    assert finding.id == "LBL002"
    assert [found.id for found in check(dev={"network.placement_group": "create"}, llama=asked)] == ["CAP003"]
