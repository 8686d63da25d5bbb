"""HST: what pods take of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[dict[str, Any], list[str], dict[str, Any]]] = {
    "300 GiB on each of 8 ranks": (
        {"dpd.l1_cache.size_per_rank": "300GiB"},
        ["prefill", "2400 GiB", "1843 GiB", "set it to 212GiB or less"],
        {"dpd.l1_cache.size_per_rank": "212GiB"},
    ),
    "half a node": (
        {"dpd.l1_cache.size_per_rank": "200GiB", "serving.tensor_parallel": 4},
        ["921 GiB", "set it to 194GiB or less"],
        {"dpd.l1_cache.size_per_rank": "194GiB", "serving.tensor_parallel": 4},
    ),
}


@pytest.mark.parametrize(("bad", "says", "good"), CASES.values(), ids=CASES.keys())
def test_rule(one_rule: Callable[..., None], bad: Any, says: list[str], good: Any) -> None:
    one_rule("HST001", {"llama": bad}, "dpd.l1_cache.size_per_rank", says, {"llama": good})


def test_a_disabled_cache_takes_nothing(check: Callable[..., list[Any]]) -> None:
    assert check(llama={"dpd.l1_cache": {"enabled": False, "size_per_rank": "300GiB"}}) == []
