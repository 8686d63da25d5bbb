"""LMC: LMCache's settings, in every spelling that the worker reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "LMC001 P-54 tail of a chunk is not sent": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_SAVE_UNFULL_CHUNK": "False"}}},
        "dpd.environment.LMCACHE_SAVE_UNFULL_CHUNK",
        ["save_unfull_chunk is `False`", "the package sets True"],
        {"llama": {"dpd.environment": {"LMCACHE_SAVE_UNFULL_CHUNK": "1"}}},
    ),
    "LMC001 P-54 a word that LMCache reads as off": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_SAVE_UNFULL_CHUNK": "yes"}}},
        "dpd.environment.LMCACHE_SAVE_UNFULL_CHUNK",
        ["`yes`"],
        {"llama": {"dpd.environment": {"LMCACHE_SAVE_UNFULL_CHUNK": "true"}}},
    ),
    "LMC001 layer by layer": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_USE_LAYERWISE": "True"}}},
        "dpd.environment.LMCACHE_USE_LAYERWISE",
        ["nothing is sent"],
        {"llama": {"dpd.environment": {"LMCACHE_USE_LAYERWISE": "False"}}},
    ),
    "LMC001 in small letters": (
        "LMC001",
        {"llama": {"dpd.environment": {"lmcache_enable_p2p": "1"}}},
        "dpd.environment.lmcache_enable_p2p",
        ["enable_p2p"],
        {"llama": {"dpd.environment": {"lmcache_enable_p2p": "0"}}},
    ),
    "LMC001 P-48 pages that nobody retrieves": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_MIN_RETRIEVE_TOKENS": "512"}}},
        "dpd.environment.LMCACHE_MIN_RETRIEVE_TOKENS",
        ["never freed"],
        {"llama": {"dpd.environment": {"LMCACHE_MIN_RETRIEVE_TOKENS": "0"}}},
    ),
    "LMC001 P-57 decode before the cache is there": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_PD_SKIP_PROXY_NOTIFICATION": "true"}}},
        "dpd.environment.LMCACHE_PD_SKIP_PROXY_NOTIFICATION",
        ["wrong output"],
        {"llama": {"dpd.environment": {"LMCACHE_PD_SKIP_PROXY_NOTIFICATION": "false"}}},
    ),
    "LMC001 one role for both": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_PD_ROLE": "sender"}}},
        "dpd.environment.LMCACHE_PD_ROLE",
        ["one role"],
        {"llama": {"dpd.environment": {}}},
    ),
    "LMC001 settings in a file": (
        "LMC001",
        {"llama": {"dpd.environment": {"LMCACHE_CONFIG_FILE": "/etc/lmcache.yaml"}}},
        "dpd.environment.LMCACHE_CONFIG_FILE",
        ["no rule can read the file"],
        {"llama": {"dpd.environment": {"LMCACHE_LOG_LEVEL": "DEBUG"}}},
    ),
    "LMC002 name of an earlier release": (
        "LMC002",
        {"llama": {"dpd.environment": {"LMCACHE_NIXL_ROLE": "sender"}}},
        "dpd.environment.LMCACHE_NIXL_ROLE",
        ["does not read nixl_role", "the earlier name of pd_role"],
        {"llama": {"dpd.environment": {}}},
    ),
    "LMC002 switch of an earlier release": (
        "LMC002",
        {"llama": {"dpd.environment": {"lmcache_enable_xpyd": "True"}}},
        "dpd.environment.lmcache_enable_xpyd",
        ["need no switch"],
        {"llama": {"dpd.environment": {}}},
    ),
    "LMC003 no number": (
        "LMC003",
        {"llama": {"dpd.environment": {"LMCACHE_CHUNK_SIZE": "256k"}}},
        "dpd.environment.LMCACHE_CHUNK_SIZE",
        ["`256k`"],
        {"llama": {"dpd.environment": {"LMCACHE_CHUNK_SIZE": "512"}}},
    ),
    "LMC003 nothing in a chunk": (
        "LMC003",
        {"llama": {"dpd.environment": {"LMCACHE_CHUNK_SIZE": "0"}}},
        "dpd.environment.LMCACHE_CHUNK_SIZE",
        ["`0`"],
        {"llama": {"dpd.environment": {"LMCACHE_CHUNK_SIZE": "256"}}},
    ),
    "LMC005 hybrid manager forced on": (
        "LMC005",
        {"llama": {"dpd.decode.args": ["--no-disable-hybrid-kv-cache-manager"]}},
        "dpd.decode.args[0]",
        ["hybrid KV cache manager"],
        {"llama": {"dpd.decode.args": ["--disable-hybrid-kv-cache-manager"]}},
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


EXTRA = '{"kv_connector": "LMCacheConnectorV1", "kv_connector_extra_config": {"lmcache.%s": %s}}'
TRIED: dict[str, tuple[str, str, str]] = {
    "switch": ("use_layerwise", "true", "LMC001"),
    "number": ("min_retrieve_tokens", "64", "LMC001"),
    "old name": ("nixl_receiver_host", '"10.0.0.1"', "LMC002"),
    "chunk": ("chunk_size", "0", "LMC003"),
    "backend": ("nixl_backends", '["UCX"]', "EFA001"),
    "address": ("pd_peer_host", '"localhost"', "EFA005"),
    "buffer": ("pd_buffer_size", "1024", "SRV008"),
}


@pytest.mark.parametrize(("key", "value", "id"), TRIED.values(), ids=TRIED.keys())
def test_the_transfer_configuration_wins_over_variables(
    check: Callable[..., list[Any]], key: str, value: str, id: str
) -> None:
    self_managed = {"serving.runtime": "self_managed", "dpd.environment": {f"LMCACHE_{key.upper()}": "0"}}
    args = {"dpd.prefill.args": ["--kv-transfer-config", EXTRA % (key, value)]}
    before = {(item.id, item.path) for item in check(llama=self_managed)}
    found = [(item.id, item.path) for item in check(llama={**self_managed, **args})]
    assert [item for item in found if item not in before] == [(id, "dpd.prefill.args[0]")]


def test_a_setting_in_dotted_form_is_read(check: Callable[..., list[Any]]) -> None:
    args = ['--kv-transfer-config.kv_connector_extra_config={"lmcache.use_layerwise": true}']
    found = check(llama={"serving.runtime": "self_managed", "serving.args": args})
    assert [(item.id, item.path) for item in found] == [
        ("LMC001", "serving.args[0]"),
        ("OPR011", "serving.runtime"),
    ]


def test_only_the_lmcache_transport_is_judged(check: Callable[..., list[Any]]) -> None:
    assert check(gpt={"dpd.environment": {"LMCACHE_USE_LAYERWISE": "True"}}) == []
    assert check(llama={"serving.mode": "colocated", "dpd.environment": {"LMCACHE_PD_ROLE": "sender"}}) == []
