"""KVC: the PD buffer and GPU memory, with the numbers of the sizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SLOW = {"requests_per_second": 2, "input_tokens": 4000}

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "KVC001 P-49 one byte short of a page": (
        "KVC001",
        {"llama": {"dpd.pd_buffer": "671088639B"}},
        "dpd.pd_buffer",
        ["one 16384-token prompt", "671088640", "671088639", "1GiB", "16128"],
        {"llama": {"dpd.pd_buffer": "671088640B", "workload": SLOW}},
    ),
    "KVC001 P-55 longer by an argument": (
        "KVC001",
        {"llama": {"serving.args": ["--max-model-len", "256k"]}},
        "dpd.pd_buffer",
        ["256000-token", "209664"],
        {"llama": {"serving.args": ["--max-model-len", "128k"]}},
    ),
    "KVC002 P-52 more in flight than fits": (
        "KVC002",
        {"prod": {}, "llama": {"dpd.pd_buffer": "832MiB"}},
        "dpd.pd_buffer",
        ["holds 4 prompts of 5000 tokens", "5 in flight", "2GiB"],
        {"prod": {}, "llama": {"dpd.pd_buffer": "2GiB"}},
    ),
    "KVC003 405B in bfloat16": (
        "KVC003",
        {"llama405": {"architecture.quantization": ...}},
        "serving.gpu_memory_utilization",
        ["prefill: weights 94.3 GiB", "0.8 of 80.0 GiB is 64.0 GiB"],
        {"llama405": {}},
    ),
    "KVC004 no room outside the fraction": (
        "KVC004",
        {"llama": {"serving.gpu_memory_utilization": 0.9}},
        "serving.gpu_memory_utilization",
        ["0.9 of 80.0 GiB", "8.0 GiB", "3.9 GiB", "0.85 or less"],
        {"llama": {"serving.gpu_memory_utilization": 0.85}},
    ),
    "KVC004 buffer larger than the GPU": (
        "KVC004",
        {"llama": {"dpd.pd_buffer": "100GiB"}},
        "dpd.pd_buffer",
        ["100.0 GiB", "lower dpd.pd_buffer"],
        {"llama": {"dpd.pd_buffer": "16GiB"}},
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


def test_an_automatic_length_is_sized_by_the_configuration(check: Callable[..., list[Any]]) -> None:
    assert check(llama={"serving.args": ["--max-model-len", "auto"]}) == []
    short = {"serving.args": ["--max-model-len", "-1"], "dpd.pd_buffer": "512MiB"}
    assert [found.id for found in check(llama=short)] == ["KVC001"]


def test_without_lmcache_there_is_no_buffer_to_fill(check: Callable[..., list[Any]]) -> None:
    assert check(gpt={"dpd.pd_buffer": "1MiB"}) == []
    assert check(llama={"serving.mode": "colocated", "dpd.pd_buffer": "1MiB"}) == []
