"""What engines on this machine can do is checked, and nothing that only a cluster has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpd.finding import Finding
from dpd.rules import check as check_rules

Check = Callable[..., list[Finding]]

WIDE = {
    "parameters": 1e9,
    "layers": 32,
    "hidden_size": 1024,
    "attention_heads": 8,
    "kv_heads": 8,
    "head_dim": 128,
    "dtype": "bfloat16",
}

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "LOC002 LMCache on the CPU": (
        "LOC002",
        {"local": {}, "tiny": {"dpd.transport": "lmcache"}},
        "dpd.transport",
        ["CPU", "nixl"],
        {"local": {}, "tiny": {"dpd.transport": "lmcache", "serving.mode": "colocated"}},
    ),
    "CFG008 region": (
        "CFG008",
        {"local": {"region": "us-west-2"}},
        "region",
        ["belongs to `backend: hyperpod`"],
        {"local": {}},
    ),
    "CFG008 engines on a cluster": (
        "CFG008",
        {"dev": {"local": {"engine": "vllm"}}},
        "local",
        ["belongs to `backend: local`"],
        {"dev": {}},
    ),
    "LOC003 bucket": (
        "LOC003",
        {"local": {}, "tiny": {"weights": {"source": "s3", "prefix": "tiny/"}}},
        "weights.source",
        ["this machine", "local, generated"],
        {"local": {}, "tiny": {"weights": {"source": "local", "path": "/models/tiny"}}},
    ),
    "LOC003 generated in a cluster": (
        "LOC003",
        {"dev": {}, "llama": {"weights": {"source": "generated"}}},
        "weights.source",
        ["pods on HyperPod", "s3"],
        {"dev": {}, "llama": {"weights": {"source": "huggingface"}}},
    ),
    "LOC004 container image": (
        "LOC004",
        {"local": {}, "tiny": {"serving.image": "hyperpod-dlc"}},
        "serving.image",
        ["no engine", "vllm-cpu"],
        {"local": {}, "tiny": {"serving.image": "vllm-cpu"}},
    ),
    "LOC005 key": (
        "LOC005",
        {"local": {}, "tiny": {"serving.tensor_parallel": 2}},
        "serving.tensor_parallel",
        ["one rank"],
        {"local": {}, "tiny": {"serving.tensor_parallel": 1}},
    ),
    "LOC005 argument": (
        "LOC005",
        {"local": {}, "tiny": {"dpd.decode.args": ["-tp", "2"]}},
        "dpd.decode.args[0]",
        ["one rank"],
        {"local": {}, "tiny": {"dpd.decode.args": ["-tp", "1"]}},
    ),
    # 2 * 32 layers * 8 heads * 128 * 2 bytes = 131,072 bytes a token, 8,192 of which are 1 GiB.
    "LOC006 longest prompt": (
        "LOC006",
        {"local": {}, "tiny": {"architecture": WIDE, "serving.max_model_len": 8193}},
        "local.kv_cache",
        ["8193 tokens", "set it to 2GiB, or max_model_len to 8192"],
        {"local": {}, "tiny": {"architecture": WIDE, "serving.max_model_len": 8192}},
    ),
    "SRV001 seed": (
        "SRV001",
        {"local": {}, "tiny": {"dpd.environment": {"PYTHONHASHSEED": "random"}}},
        "dpd.environment.PYTHONHASHSEED",
        ["not one fixed integer"],
        {"local": {}, "tiny": {"dpd.environment": {"PYTHONHASHSEED": "7"}}},
    ),
    "SRV005 argument of another release": (
        "SRV005",
        {"local": {}, "tiny": {"serving.args": ["--swap-space", "4"]}},
        "serving.args[0]",
        ["vLLM 0.32.0 no longer has --swap-space"],
        {"local": {}, "tiny": {"serving.args": ["--seed", "4"]}},
    ),
    "SRV008 transfer": (
        "SRV008",
        {"local": {}, "tiny": {"dpd.decode.args": ["--kv-transfer-config", "{}"]}},
        "dpd.decode.args[0]",
        ["set by the package"],
        {"local": {}, "tiny": {"dpd.decode.args": []}},
    ),
    "SRV008 size of the cache": (
        "SRV008",
        {"local": {}, "tiny": {"dpd.environment": {"VLLM_CPU_KVCACHE_SPACE": "4"}}},
        "dpd.environment.VLLM_CPU_KVCACHE_SPACE",
        ["local.kv_cache"],
        {"local": {"local": {"kv_cache": "4GiB"}}},
    ),
    "RTG001 threshold": (
        "RTG001",
        {"local": {}, "tiny": {"dpd.routing.threshold_tokens": 4096}},
        "dpd.routing.threshold_tokens",
        ["no prompt reaches 4096"],
        {"local": {}, "tiny": {"dpd.routing.threshold_tokens": 4095}},
    ),
    "RTG003 routers": (
        "RTG003",
        {"local": {}, "tiny": {"dpd.routing.replicas": 2}},
        "dpd.routing.replicas",
        ["this machine runs one router"],
        {"local": {}, "tiny": {"dpd.routing.replicas": 1}},
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


@pytest.mark.parametrize(
    "tiny",
    [
        {"dpd.pd_buffer": "1TiB"},
        {"serving.gpu_memory_utilization": 0.01},
        {"autoscaling": {"prefill": {"min": 0, "max": 9}}},
        {"dpd.prefill.replicas": 2, "dpd.decode.replicas": 2},
        {"workload.concurrency": 1000},
        {"dpd.environment": {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1"}},
        {"dpd.topology": {"zone_id": "usw2-az2"}},
    ],
    ids=str,
)
def test_what_only_a_cluster_has_is_not_judged(check: Check, tiny: dict[str, Any]) -> None:
    assert check(local={}, tiny=tiny) == []


def test_every_key_of_the_other_back_end_is_named(workspace: Any) -> None:
    workspace.edit("dev", {"backend": "local"})
    found = workspace.load().findings
    assert {item.id for item in found} == {"CFG008"}
    assert {item.path for item in found} == {
        *("region", "gpu_zone_id", "network", "kubernetes", "hyperpod", "operator", "tags"),
    }


def test_a_mistake_beside_a_foreign_key_is_reported_too(workspace: Any) -> None:
    workspace.edit("local", {"region": "us-west-2", "local": {"router_prot": 8080}})
    found = {item.id: item for item in workspace.load().findings}
    assert found.keys() == {"CFG008", "CFG001"}
    assert "did you mean `router_port`" in found["CFG001"].fix


def test_a_finding_of_this_machine_can_be_accepted(check: Check) -> None:
    accept = {"LOC004": {"severity": "info", "reason": "an engine of our own"}}
    (found,) = check(local={"accept": accept}, tiny={"serving.image": "our-engine"})
    assert (found.id, found.severity, found.accepted) == ("LOC004", "info", "an engine of our own")


def test_accept_is_checked_on_this_machine(check: Check) -> None:
    accept = {"LOC001": {"severity": "info", "reason": "nobody has it any more"}}
    assert [found.id for found in check(local={"accept": accept})] == ["CFG007"]


def test_an_engine_without_a_flag_table_is_not_judged_by_one(check: Check) -> None:
    found = check(local={}, tiny={"serving.image": "our-engine", "serving.args": ["--anything"]})
    assert [item.id for item in found] == ["LOC004"]


def test_a_model_of_a_cluster_says_all_that_this_machine_lacks(workspace: Any) -> None:
    found = check_rules(workspace.load(), ["local"], ["llama-3.3-70b"])
    assert {item.id for item in found} == {"LOC002", "LOC003", "LOC004", "LOC005", "LOC006"}
