"""The wait for GPUs and EFA devices: node lists as the Kubernetes API gives them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Poll = Callable[..., dict[str, Any]]
# CloudFormation hands every number over as text.
DEVICES = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}


@pytest.fixture
def nodes_of(poll: Poll) -> Callable[..., dict[str, Any]]:
    """Return ``nodes_of(node(), ..., decode=1)``: the answer where the decode group has these nodes."""

    def run(
        *nodes: Mapping[str, Any], decode: int = 1, prefill: int = 0, waited_s: int = 60
    ) -> dict[str, Any]:
        def ask(path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
            assert urllib.parse.unquote(path) == "/api/v1/nodes?labelSelector=hyperpod-dpd/role=decode"
            assert body is None
            return {"kind": "NodeList", "apiVersion": "v1", "items": list(nodes)}

        groups = [
            {"Name": name, "Label": "hyperpod-dpd/role", "Count": str(count), "Devices": DEVICES}
            for name, count in (("prefill", prefill), ("decode", decode))
        ]
        return poll(ask, waited_s=waited_s, Check="devices", Groups=groups)

    return run


def node(name: str = "hyperpod-i-0123456789abcdef0", ready: str = "True", **devices: str) -> dict[str, Any]:
    offered = {"gpu": "8", "efa": "32", **devices}
    names = {"gpu": "nvidia.com/gpu", "efa": "vpc.amazonaws.com/efa"}
    return {
        "metadata": {"name": name, "labels": {"hyperpod-dpd/role": "decode"}},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "NotYet"},
            ],
            "allocatable": {
                "cpu": "191450m",
                "memory": "2029580Ki",
                "pods": "49",
                **{names[key]: value for key, value in offered.items() if value},
            },
        },
    }


def test_groups_without_nodes_ask_for_nothing(poll: Poll) -> None:
    def ask(_: str, __: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        raise AssertionError

    group = {"Name": "decode", "Label": "hyperpod-dpd/role", "Count": "0", "Devices": DEVICES}
    assert poll(ask, Check="devices", Groups=[group]) == {"IsComplete": True}


def test_complete_when_every_node_offers_everything(nodes_of: Poll) -> None:
    assert nodes_of(node(), node("hyperpod-i-1"), decode=2) == {"IsComplete": True}


@pytest.mark.parametrize(
    "lacking",
    [
        node(gpu=""),
        node(efa="0"),
        node(efa="31"),
        node(efa="33"),  # a plugin that counts NVLink devices as well (P-23)
        node(ready="Unknown"),
    ],
    ids=["no GPU plugin", "P-29 no EFA", "one EFA device short", "P-23 too many", "not Ready"],
)
def test_waits_while_a_node_lacks_something(nodes_of: Poll, lacking: dict[str, Any]) -> None:
    assert nodes_of(lacking) == {"IsComplete": False}


def test_a_node_that_leaves_does_not_hold_up_the_others(nodes_of: Poll) -> None:
    assert nodes_of(node(), node("hyperpod-i-1", ready="Unknown"), decode=1) == {"IsComplete": True}


@pytest.mark.parametrize(
    ("health", "complete"),
    [("Unschedulable", True), ("Schedulable", False), ("UnschedulablePendingReplacement", False)],
)
def test_only_a_node_in_deep_health_checks_may_lack_devices(
    nodes_of: Poll, health: str, complete: bool
) -> None:
    checked = node(efa="0")
    checked["metadata"]["labels"]["sagemaker.amazonaws.com/node-health-status"] = health

    assert nodes_of(checked) == {"IsComplete": complete}


def test_the_deadline_tells_group_node_and_what_is_missing(nodes_of: Poll) -> None:
    with pytest.raises(RuntimeError) as raised:
        nodes_of(node(), node("hyperpod-i-1", ready="False", efa="0", gpu=""), decode=2, waited_s=900)

    assert str(raised.value) == (
        "devices of cluster dpd-dev: not ready after 900 s. "
        "group decode has 1 of 2 nodes with 8 nvidia.com/gpu and 32 vpc.amazonaws.com/efa: "
        "hyperpod-i-1 is not Ready (NotYet), offers 0 nvidia.com/gpu, offers 0 vpc.amazonaws.com/efa"
    )


def test_the_deadline_says_that_no_node_has_the_label(nodes_of: Poll) -> None:
    with pytest.raises(RuntimeError, match=r"group decode has 0 of 1 nodes .*, and 0 with its label"):
        nodes_of(waited_s=900)
