"""RTG and SCL: which prompts are disaggregated, and how far roles scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "RTG001 P-70 no prompt is that long": (
        "RTG001",
        {"llama": {"dpd.routing.threshold_tokens": 16384}},
        "dpd.routing.threshold_tokens",
        ["no prompt reaches 16384 tokens", "holds 16384"],
        {"llama": {"dpd.routing.threshold_tokens": 16383}},
    ),
    "RTG001 P-70 context shortened by an argument": (
        "RTG001",
        {"llama": {"serving.args": ["--max-model-len=4k"]}},
        "dpd.routing.threshold_tokens",
        ["reaches 4096 tokens", "holds 4000"],
        {"llama": {"serving.args": ["--max-model-len=5k"]}},
    ),
    "RTG002 P-54 less than a chunk": (
        "RTG002",
        {"llama": {"dpd.routing.threshold_tokens": 255}},
        "dpd.routing.threshold_tokens",
        ["255 tokens", "chunk of 256"],
        {"llama": {"dpd.routing.threshold_tokens": 256}},
    ),
    "RTG002 P-59 zero is deliberate": (
        "RTG002",
        {"llama": {"dpd.routing.threshold_tokens": 1}},
        "dpd.routing.threshold_tokens",
        ["1 tokens"],
        {"llama": {"dpd.routing.threshold_tokens": 0}},
    ),
    "SCL001 P-69 down to zero": (
        "SCL001",
        {"llama": {"autoscaling.decode.min": 0}},
        "autoscaling.decode.min",
        ["decode may scale to zero"],
        {"llama": {"autoscaling.decode.min": 1}},
    ),
    "SCL003 more than the group": (
        "SCL003",
        {"llama": {"autoscaling.prefill.max": 4}},
        "autoscaling.prefill.max",
        ["holds 1 replicas", "asks for 4"],
        {"llama": {"autoscaling.prefill.max": 1}},
    ),
    "SCL004 scales on nothing": (
        "SCL004",
        {"dev": {"hyperpod.groups.prefill.count": 2}, "llama": {"autoscaling.prefill.max": 2}},
        "autoscaling.prefill.max",
        ["from 1 to 2", "prometheus_url"],
        {
            "dev": {"hyperpod.groups.prefill.count": 2, "observability": {"prometheus_url": AMP}},
            "llama": {"autoscaling.prefill.max": 2},
        },
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
