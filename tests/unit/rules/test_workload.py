"""WRK: whether this traffic and this model gain from disaggregation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MLA = {"architecture.attention": "mla", "architecture.kv_lora_rank": 512, "architecture.qk_rope_head_dim": 64}

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "WRK001 too little to gain": (
        "WRK001",
        {"llama": {"workload.input_tokens": 800, "workload.output_tokens": 64}},
        "workload",
        ["input_tokens 800 < 4000", "output_tokens 64 < 256"],
        {"llama": {"workload.input_tokens": 4000, "workload.output_tokens": 256}},
    ),
    "WRK001 too rare": (
        "WRK001",
        {"llama": {"workload.requests_per_second": 1.5}},
        "workload",
        ["requests_per_second 1.5 < 2"],
        {"llama": {"serving.mode": "colocated", "workload.requests_per_second": 1.5}},
    ),
    "WRK002 prefillers cannot keep up": (
        "WRK002",
        {"llama": {"workload.requests_per_second": 4}},
        "dpd.prefill.replicas",
        ["89% busy", "4 prompts per second of 5000 tokens", "222 ms each on 1 replica", "use 2 prefill"],
        {"llama": {"workload.requests_per_second": 3}},
    ),
    "WRK005 prompt and answer together": (
        "WRK005",
        {"llama": {"workload.input_tokens": 16000, "workload.output_tokens": 512}},
        "workload.output_tokens",
        ["16000 tokens of prompt and 512 of answer", "context of 16384"],
        {"llama": {"workload.input_tokens": 4000, "workload.output_tokens": 12384}},
    ),
    "WRK005 prompt alone, context of an argument": (
        "WRK005",
        {"llama": {"serving.args": ["--max-model-len", "4900"]}},
        "workload.input_tokens",
        ["context of 4900"],
        {"llama": {"serving.args": ["--max-model-len", "8k"]}},
    ),
    "WRK003 P-58 more than AWS tried": (
        "WRK003",
        {"llama": {"workload.concurrency": 65}},
        "workload.concurrency",
        ["65 concurrent requests, validated are 64"],
        {"llama": {"workload.concurrency": 64}},
    ),
    "WRK004 mixture of experts": (
        "WRK004",
        {"llama": {"architecture.moe": True}},
        "dpd.transport",
        ["a mixture of experts"],
        {"llama": {"architecture.moe": False}},
    ),
    "WRK004 latent attention": (
        "WRK004",
        {"llama": MLA},
        "dpd.transport",
        ["MLA"],
        {"gpt": MLA},
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


def test_a_low_rate_of_long_prompts_still_gains(check: Callable[..., list[Any]]) -> None:
    # 0.5 prompts per second that take 1.2 s each fill a third of two colocated replicas.
    assert check(llama405={"workload.requests_per_second": 0.5}) == []
    (found,) = check(llama405={"workload.requests_per_second": 0.3})
    assert (found.id, "18% of their time on prefill" in found.message) == ("WRK001", True)


def test_estimates_wait_until_the_model_can_run(check: Callable[..., list[Any]]) -> None:
    edits = {"workload.requests_per_second": 50, "serving.tensor_parallel": 3}
    assert [found.id for found in check(llama=edits)] == ["SRV006"]
