"""EFA: variables and labels that decide whether KV cache moves over RDMA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LABEL = "node.kubernetes.io/instance-type"
UCX = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
LIBFABRIC = '{"kv_connector": "NixlConnector", "kv_connector_extra_config": {"backends": ["LIBFABRIC"]}}'
MALFORMED = '{"kv_connector": "NixlConnector", "kv_connector_extra_config": "LIBFABRIC"}'
DOTTED = [
    "--kv-transfer-config.kv_connector=NixlConnector",
    "--kv-transfer-config.kv_connector_extra_config.backends+=LIBFABRIC",
]

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "EFA001 P-32 default backend": (
        "EFA001",
        {"gpt": {"dpd.decode.args": ["--kv-transfer-config", UCX]}},
        "dpd.decode.args[0]",
        ["LIBFABRIC"],
        {"gpt": {"dpd.decode.args": ["--kv-transfer-config", LIBFABRIC]}},
    ),
    "EFA001 P-32 in dotted form": (
        "EFA001",
        {
            "gpt": {
                "serving.args": ["--block-size=128"],
                "dpd.decode.args": ["--kv-transfer-config.kv_connector=NixlConnector"],
            }
        },
        "dpd.decode.args[0]",
        ["LIBFABRIC"],
        {"gpt": {"dpd.decode.args": DOTTED}},
    ),
    "EFA001 backends of the wrong shape": (
        "EFA001",
        {"gpt": {"dpd.prefill.args": ["--kv-transfer-config", MALFORMED]}},
        "dpd.prefill.args[0]",
        ["LIBFABRIC"],
        {"gpt": {}},
    ),
    "EFA001 P-35 LMCache's backend": (
        "EFA001",
        {"llama": {"dpd.environment": {"LMCACHE_NIXL_BACKENDS": "UCX"}}},
        "dpd.environment.LMCACHE_NIXL_BACKENDS",
        ["UCX"],
        {"llama": {"dpd.environment": {"LMCACHE_NIXL_BACKENDS": "LIBFABRIC"}}},
    ),
    "EFA002 P-32 without effect": (
        "EFA002",
        {"llama": {"dpd.environment": {"NIXL_BACKEND": "LIBFABRIC"}}},
        "dpd.environment.NIXL_BACKEND",
        ["no effect"],
        {"llama": {"dpd.environment": {}}},
    ),
    "EFA005 P-66 everywhere": (
        "EFA005",
        {"gpt": {"dpd.environment": {"VLLM_NIXL_SIDE_CHANNEL_HOST": "0.0.0.0"}}},
        "dpd.environment.VLLM_NIXL_SIDE_CHANNEL_HOST",
        ["`0.0.0.0` in every pod", "the pod that reads it"],
        {"gpt": {"dpd.environment": {"VLLM_NIXL_SIDE_CHANNEL_HOST": "$(POD_IP)"}}},
    ),
    "EFA005 P-66 in small letters": (
        "EFA005",
        {"llama": {"dpd.environment": {"lmcache_pd_peer_host": "LocalHost"}}},
        "dpd.environment.lmcache_pd_peer_host",
        ["LMCACHE_PD_PEER_HOST is `LocalHost`"],
        {"llama": {"dpd.environment": {}}},
    ),
    "EFA005 P-66 address of one pod": (
        "EFA005",
        {"llama": {"dpd.environment": {"VLLM_HOST_IP": "203.0.113.7"}}},
        "dpd.environment.VLLM_HOST_IP",
        ["reaches one pod only"],
        {"llama": {"serving.mode": "colocated", "dpd.environment": {"VLLM_HOST_IP": "203.0.113.7"}}},
    ),
    "EFA005 P-66 router that is nowhere": (
        "EFA005",
        {"llama": {"dpd.environment": {"LMCACHE_PD_PROXY_HOST": "127.0.0.1"}}},
        "dpd.environment.LMCACHE_PD_PROXY_HOST",
        ["127.0.0.1"],
        {"llama": {"dpd.environment": {"LMCACHE_PD_PROXY_HOST": "router.inference.svc"}}},
    ),
    "EFA001 P-32 LMCache's backend in small letters": (
        "EFA001",
        {"llama": {"dpd.environment": {"lmcache_nixl_backends": "ucx"}}},
        "dpd.environment.lmcache_nixl_backends",
        ["ucx"],
        {"llama": {"dpd.environment": {"lmcache_nixl_backends": "libfabric"}}},
    ),
    "EFA006 P-24 label without its prefix": (
        "EFA006",
        {"llama": {"dpd.decode.node_selector": {LABEL: "p5.48xlarge"}}},
        "dpd.decode.node_selector.node.kubernetes.io/instance-type",
        ["write ml.p5.48xlarge"],
        {"llama": {"dpd.decode.node_selector": {LABEL: "ml.p5.48xlarge"}}},
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


def test_backends_written_for_both_roles_are_one_finding(check: Callable[..., list[Any]]) -> None:
    found = check(gpt={"serving.args": ["--kv-transfer-config", UCX], "dpd.transport": "lmcache"})
    assert [(item.id, item.path) for item in found if item.id == "EFA001"] == [("EFA001", "serving.args[0]")]
