"""SRV: NixlConnector's ranks, blocks and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

WINDOWED = {"architecture.sliding_window": 4096, "architecture.sliding_window_layers": 40}
ABORT = "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "SRV010 P-64 unequal ranks": (
        "SRV010",
        {"gpt": {"dpd.decode.args": ["-tp", "4"]}},
        "dpd.decode.args[0]",
        ["8 for prefill and 4 for decode", "vLLM 0.20.0.dev361"],
        {"gpt": {"serving.args": ["--block-size=128", "-tp", "4"]}},
    ),
    "SRV011 P-65 hybrid model on LMCache": (
        "SRV011",
        {"llama": WINDOWED},
        "serving.args",
        ["40 of 80 layers", "--block-size"],
        {"llama": {**WINDOWED, "serving.args": ["--block-size", "64"]}},
    ),
    "SRV011 P-65 hybrid model on NIXL": (
        "SRV011",
        {"gpt": {"serving.args": []}},
        "serving.args",
        ["18 of 36 layers"],
        {"gpt": {}},
    ),
    "SRV012 P-67 shorter than the router waits": (
        "SRV012",
        {"gpt": {"dpd.environment": {ABORT: "120"}}},
        f"dpd.environment.{ABORT}",
        ["`120`", "300 s"],
        {"gpt": {"dpd.environment": {ABORT: "300"}}},
    ),
    "SRV012 P-68 no number": (
        "SRV012",
        {"gpt": {"dpd.environment": {ABORT.lower(): "never"}}},
        f"dpd.environment.{ABORT.lower()}",
        ["`never`"],
        {"llama": {"dpd.environment": {ABORT: "10"}}},
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
