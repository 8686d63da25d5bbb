"""RTG and SCL: which prompts are disaggregated, and how far roles scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"

SCALABLE = {
    "hyperpod.groups.prefill.count": 3,
    "hyperpod.groups.decode.count": 3,
    "observability": {"prometheus_url": AMP},
}


def both_scale(prefill: str | None = None, decode: str | None = None) -> dict[str, Any]:
    """Return a model whose roles scale from 1 to 3, on these signals."""
    return {
        "autoscaling.prefill": {"min": 1, "max": 3, "signal": prefill},
        "autoscaling.decode": {"min": 1, "max": 3, "signal": decode},
    }


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
        {"llama": {"serving.args": ["--max-model-len=4k"], "workload.input_tokens": 3700}},
        "dpd.routing.threshold_tokens",
        ["reaches 4096 tokens", "holds 4000"],
        {"llama": {"serving.args": ["--max-model-len=5k"], "workload.input_tokens": 4000}},
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
    "RTG002 a chunk of another size": (
        "RTG002",
        {"llama": {"dpd.routing.threshold_tokens": 500, "dpd.environment": {"LMCACHE_CHUNK_SIZE": "512"}}},
        "dpd.routing.threshold_tokens",
        ["500 tokens is less than a chunk of 512"],
        {"llama": {"dpd.routing.threshold_tokens": 512, "dpd.environment": {"LMCACHE_CHUNK_SIZE": "512"}}},
    ),
    "RTG003 P-71 a second router": (
        "RTG003",
        {"llama": {"dpd.routing.replicas": 2}},
        "dpd.routing.replicas",
        ["LMCache notifies one router, got 2"],
        {"gpt": {"dpd.routing.replicas": 2}},
    ),
    "RTG003 the operator's own router": (
        "RTG003",
        {"llama": {"serving.mode": "colocated", "dpd.routing.replicas": 3}},
        "dpd.routing.replicas",
        ["the operator runs its own router"],
        {"llama": {"serving.mode": "colocated"}},
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
    "SCL002 P-69 prefill on the decoder's signal": (
        "SCL002",
        {"dev": SCALABLE, "llama": both_scale(prefill="running")},
        "autoscaling.prefill.signal",
        ["both scale on running"],
        {"dev": SCALABLE, "llama": both_scale(prefill="waiting")},
    ),
    "SCL002 P-69 decode on the prefiller's signal": (
        "SCL002",
        {"dev": SCALABLE, "llama": both_scale(decode="waiting")},
        "autoscaling.decode.signal",
        ["both scale on waiting"],
        {"dev": SCALABLE, "llama": both_scale(decode="kv_cache")},
    ),
    "SCL002 one role scales": (
        "SCL002",
        {"dev": SCALABLE, "llama": both_scale(prefill="kv_cache", decode="kv_cache")},
        "autoscaling.prefill.signal",
        ["kv_cache"],
        {"dev": SCALABLE, "llama": both_scale(prefill="kv_cache") | {"autoscaling.decode.max": 1}},
    ),
    "SCL005 below the range": (
        "SCL005",
        {"dev": SCALABLE, "llama": {"autoscaling.prefill": {"min": 2, "max": 3}}},
        "dpd.prefill.replicas",
        ["starts with 1 replicas and scales from 2 to 3"],
        {
            "dev": SCALABLE,
            "llama": {
                "autoscaling.prefill": {"min": 2, "max": 3},
                "dpd.prefill.replicas": 2,
                "dpd.routing.strategy": "roundrobin",
            },
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
