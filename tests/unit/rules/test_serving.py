"""SRV: the engine's arguments and environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "SRV001 P-47 random seed": (
        "SRV001",
        {"llama": {"dpd.environment": {"PYTHONHASHSEED": "random"}}},
        "dpd.environment.PYTHONHASHSEED",
        ["`random`", "not one fixed integer"],
        {"llama": {"dpd.environment": {"PYTHONHASHSEED": "42"}}},
    ),
    "SRV001 P-48 seed of more than 32 bits": (
        "SRV001",
        {"llama": {"dpd.environment": {"PYTHONHASHSEED": "4294967296"}}},
        "dpd.environment.PYTHONHASHSEED",
        ["4294967296"],
        {"llama": {"dpd.environment": {"PYTHONHASHSEED": "4294967295"}}},
    ),
    "SRV002 P-64 unequal tensor parallel": (
        "SRV002",
        {"llama": {"dpd.decode.args": ["-tp", "4"]}},
        "dpd.decode.args[0]",
        ["8 for prefill and 4 for decode"],
        {"llama": {"serving.args": ["-tp", "4"]}},
    ),
    "SRV002 P-56 other spelling, other role": (
        "SRV002",
        {"llama": {"dpd.prefill.args": ["--enforce-eager", "--tensor_parallel_size=4"]}},
        "dpd.prefill.args[1]",
        ["4 for prefill and 8 for decode"],
        {"llama": {"dpd.prefill.args": ["--enforce-eager", "--tensor_parallel_size=8"]}},
    ),
    "SRV003 P-65 block size": (
        "SRV003",
        {"llama": {"dpd.decode.args": ["--block-size", "32"]}},
        "dpd.decode.args[0]",
        ["--block-size is the default for prefill and 32 for decode"],
        {"llama": {"serving.args": ["--block-size", "32"]}},
    ),
    "SRV003 context length": (
        "SRV003",
        {"llama": {"dpd.prefill.args": ["--max-model-len=8k"]}},
        "dpd.prefill.args[0]",
        ["8000 for prefill and 16384 for decode"],
        {"llama": {"serving.args": ["--max-model-len=8k"]}},
    ),
    "SRV003 P-65 type of the KV cache": (
        "SRV003",
        {"llama": {"dpd.prefill.args": ["--kv-cache-dtype", "fp8"]}},
        "dpd.prefill.args[0]",
        ["fp8 for prefill"],
        {"llama": {"serving.args": ["--kv-cache-dtype", "fp8"]}},
    ),
    "SRV004 P-53 prefix caching on decode": (
        "SRV004",
        {"llama": {"dpd.decode.args": ["--enable-prefix-caching"]}},
        "dpd.decode.args[0]",
        ["LMCache 0.4.3", "remove the argument"],
        {"llama": {"dpd.prefill.args": ["--enable-prefix-caching"]}},
    ),
    "SRV005 misspelt flag": (
        "SRV005",
        {"llama": {"serving.args": ["--enforce-eagre"]}},
        "serving.args[0]",
        ["no flag --enforce-eagre", "did you mean --enforce-eager?"],
        {"llama": {"serving.args": ["--enforce-eager"]}},
    ),
    "SRV005 removed flag": (
        "SRV005",
        {"llama": {"dpd.prefill.args": ["--disable-log-requests"]}},
        "dpd.prefill.args[0]",
        ["no longer has --disable-log-requests", "no-enable-log-requests"],
        {"llama": {"dpd.prefill.args": ["--no-enable-log-requests"]}},
    ),
    "SRV005 bad value": (
        "SRV005",
        {"llama": {"dpd.decode.args": ["--block-size", "big"]}},
        "dpd.decode.args[0]",
        ["--block-size wants a whole number, got 'big'"],
        {"llama": {"serving.args": ["--block-size", "16"]}},
    ),
    "SRV005 word without a flag": (
        "SRV005",
        {"llama": {"serving.args": ["eager"]}},
        "serving.args[0]",
        ["`eager`"],
        {"llama": {"serving.args": ["--enforce-eager"]}},
    ),
    "SRV005 switch with a value": (
        "SRV005",
        {"llama": {"serving.args": ["--enforce-eager=true"]}},
        "serving.args[0]",
        ["takes no value"],
        {"llama": {"serving.args": ["--enforce-eager"]}},
    ),
    "SRV006 heads do not divide": (
        "SRV006",
        {"llama": {"serving.tensor_parallel": 3}},
        "serving.tensor_parallel",
        ["64 attention heads", "1, 2, 4, 8"],
        {"llama": {"serving.tensor_parallel": 8}},
    ),
    "SRV006 more ranks than GPUs": (
        "SRV006",
        {"llama": {"serving.tensor_parallel": 16}},
        "serving.tensor_parallel",
        ["8 GPUs of ml.p5.48xlarge"],
        {"llama": {"serving.tensor_parallel": 8}},
    ),
    "SRV006 less than one rank": (
        "SRV006",
        {"llama": {"serving.args": ["-tp=-4"]}},
        "serving.args[0]",
        ["-4"],
        {"llama": {"serving.args": ["-tp=4"]}},
    ),
    "SRV007 revision in the name": (
        "SRV007",
        {"llama": {"huggingface_id": "meta-llama/Llama-3.3-70B-Instruct@main"}},
        "huggingface_id",
        ["holds @"],
        {"llama": {"huggingface_id": "meta-llama/Llama-3.3-70B-Instruct"}},
    ),
    "SRV008 own buffer under LMCache's name": (
        "SRV008",
        {"llama": {"dpd.environment": {"lmcache_pd_buffer_size": "1"}}},
        "dpd.environment.lmcache_pd_buffer_size",
        ["dpd.pd_buffer"],
        {"llama": {"dpd.environment": {}}},
    ),
    "SRV009 arguments from a file": (
        "SRV009",
        {"llama": {"serving.args": ["--enforce-eager", "--config=/etc/vllm.yaml"]}},
        "serving.args[1]",
        ["--config hides arguments"],
        {"llama": {"serving.args": ["--enforce-eager"]}},
    ),
    "SRV008 own port": (
        "SRV008",
        {"llama": {"serving.args": ["--port", "9000"]}},
        "serving.args[0]",
        ["--port is set by the package"],
        {"llama": {"serving.args": []}},
    ),
    "SRV008 own transfer configuration": (
        "SRV008",
        {"llama": {"dpd.decode.args": ["--kv-transfer-config", "{}"]}},
        "dpd.decode.args[0]",
        ["--kv-transfer-config"],
        {"llama": {"dpd.decode.args": []}},
    ),
    "SRV008 own buffer variable": (
        "SRV008",
        {"llama": {"dpd.environment": {"PD_BUFFER_SIZE": "1"}}},
        "dpd.environment.PD_BUFFER_SIZE",
        ["dpd.pd_buffer"],
        {"llama": {"dpd.environment": {"VLLM_LOGGING_LEVEL": "DEBUG"}}},
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


def test_an_unknown_image_leaves_arguments_unjudged(check: Callable[..., list[Any]]) -> None:
    found = check(llama={"serving.image": "registry.example.com/vllm:1.0", "serving.args": ["--nope"]})
    assert [item.id for item in found] == ["IMG002"]


def test_ranks_beyond_measure_end_in_a_finding_at_once(check: Callable[..., list[Any]]) -> None:
    found = check(
        dev={"hyperpod.groups.decode.instance_type": "x", "hyperpod.groups.prefill.instance_type": "x"},
        llama={"serving.args": ["-tp", "999999937"]},
    )
    assert [item.id for item in found] == ["CAP006", "CAP006", "SRV006"]
