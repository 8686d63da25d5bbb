"""EFA: the devices that a pod asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "EFA003 P-29 a quarter of the devices": (
        "EFA003",
        {"llama": {"dpd.decode.resources": {"efa_devices": 8}}},
        "dpd.decode.resources.efa_devices",
        ["asks for 8 EFA devices", "8 of 8 GPUs of ml.p5.48xlarge go with 32 of 32"],
        {"llama": {"dpd.decode.resources": {"efa_devices": 32}}},
    ),
    "EFA003 P-16 the whole node's for half of it": (
        "EFA003",
        {"qwen3": {"dpd.prefill.resources": {"efa_devices": 32}}},
        "dpd.prefill.resources.efa_devices",
        ["4 of 8 GPUs", "16 of 32", "write 16"],
        {"qwen3": {"dpd.prefill.resources": {"efa_devices": 16}}},
    ),
    "EFA003 P-35 none at all": (
        "EFA003",
        {"llama": {"dpd.prefill.resources": {"efa_devices": 0}}},
        "dpd.prefill.resources.efa_devices",
        ["asks for 0 EFA devices"],
        {"llama": {"dpd.prefill.resources": {}}},
    ),
    "HST002 less than the host cache": (
        "HST002",
        {"llama": {"dpd.prefill.resources": {"memory": "128GiB"}}},
        "dpd.prefill.resources.memory",
        ["asks for 128 GiB", "184 GiB", "1843 GiB"],
        {"llama": {"dpd.prefill.resources": {"memory": "184GiB"}}},
    ),
    "HST002 more than the node": (
        "HST002",
        {"llama": {"dpd.decode.resources": {"memory": "3TiB"}}},
        "dpd.decode.resources.memory",
        ["3072 GiB"],
        {"llama": {"dpd.decode.resources": {"memory": "1TiB"}}},
    ),
    "HST002 more cores than its share": (
        "HST002",
        {"qwen3": {"dpd.prefill.resources": {"cpu": 128}}},
        "dpd.prefill.resources.cpu",
        ["asks for 128 cores", "96"],
        {"qwen3": {"dpd.prefill.resources": {"cpu": 90}}},
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
