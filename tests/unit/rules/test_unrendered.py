"""What this version does not build is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "OPR011 no manifests for it": (
        "OPR011",
        {"llama": {"serving.runtime": "self_managed"}},
        "serving.runtime",
        ["no manifests"],
        {"llama": {"serving.runtime": "operator"}},
    ),
    "OBS001 observability": (
        "OBS001",
        {"dev": {"observability": {"enabled": True}}},
        "observability.enabled",
        ["installs no observability"],
        {"dev": {"observability": {"prometheus_url": AMP}}},
    ),
    "PRO001 promotion": (
        "PRO001",
        {"dev": {"promotion": {"from": "staging"}}},
        "promotion",
        ["no pipeline"],
        {"dev": {"promotion": {"from": None, "manual_approval": False}}},
    ),
    "PRO001 approval": (
        "PRO001",
        {"dev": {"promotion": {"manual_approval": True}}},
        "promotion",
        ["approval"],
        {"dev": {"promotion": {}}},
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


def test_a_self_managed_model_may_be_tried_where_it_is_not_listed(check: Callable[..., list[Any]]) -> None:
    assert check(gpt={"serving.runtime": "self_managed"}) == []


def test_the_runtime_of_a_cluster_does_not_matter_on_this_machine(check: Callable[..., list[Any]]) -> None:
    assert check(local={}, tiny={"serving.runtime": "self_managed"}) == []
