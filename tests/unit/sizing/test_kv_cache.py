"""KV cache by kind of attention, and what the PD buffer holds and absorbs."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.sizing.gpu_memory import gpu_memory
from dpd.sizing.kv_cache import KvCache, PdBuffer, kv_cache, pd_buffer, prompts_in_flight, recommended_bytes
from dpd.spec.deployment import Deployment, RoleName, build_deployment

LLAMA_70B = PdBuffer(8 * GIB, 40_960, 256)


def deployment_of(workspace: Any, facts: Facts, name: str = "llama", **edits: object) -> Deployment:
    model = {"llama": "llama-3.3-70b", "gpt": "gpt-oss-120b"}[name]
    workspace.edit(name, edits)
    catalog = workspace.load()
    loaded, findings = catalog.effective("dev", model)
    assert findings == []
    return build_deployment(catalog.environments["dev"].value, loaded.value, facts)


def cache_of(deployment: Deployment, role: RoleName) -> KvCache:
    return kv_cache(deployment.model, deployment.role(role))


def test_sliding_windows_count_in_full_where_kv_cache_is_transferred(workspace: Any, facts: Facts) -> None:
    cache = cache_of(deployment_of(workspace, facts, "gpt"), "decode")
    assert cache.bytes_per_token == 9_216
    assert cache.sequence_bytes(10_000) == 10_000 * 9_216


def test_a_colocated_engine_keeps_only_the_window(workspace: Any, facts: Facts) -> None:
    deployment = deployment_of(workspace, facts, "gpt", **{"serving.mode": "colocated"})
    role = deployment.role("worker")
    cache = cache_of(deployment, "worker")
    assert cache.sequence_bytes(10_000) == 18 * (10_000 + 128) * 256
    assert cache.sequence_bytes(100) == 36 * 100 * 256, "shorter than the window"
    assert role.instance is not None
    memory = gpu_memory(deployment.model, role, role.instance, facts)
    assert memory.sequences(10_000) > memory.kv_room_tokens // 10_000


def test_the_kv_room_holds_as_many_sequences_as_fit_whole(workspace: Any, facts: Facts) -> None:
    deployment = deployment_of(workspace, facts)
    role = deployment.role("decode")
    assert role.instance is not None
    memory = gpu_memory(deployment.model, role, role.instance, facts)
    # 60 GiB less weights and activations over 40,960 bytes: 1.13 million tokens.
    assert memory.kv_room_tokens == pytest.approx(1.125e6, rel=0.01)
    assert memory.sequences(6256) == memory.kv_room_tokens // 6256 == 179


def test_kv_room_of_h100_at_nine_tenths_is_1_35_million_tokens(workspace: Any, facts: Facts) -> None:
    # Memory model of aiconfigurator 0.12.0 (vLLM, Llama 70B, TP 8): 1.35 and 1.34 million at 2K and 8K.
    edits = {"serving.gpu_memory_utilization": 0.9, "serving.args": ["--max-num-batched-tokens", "2048"]}
    deployment = deployment_of(workspace, facts, **edits)
    role = deployment.role("decode")
    assert role.instance is not None
    memory = gpu_memory(deployment.model, role, role.instance, facts)
    # That model counts the runtime inside the fraction, ours outside.
    inside = (memory.kv_room_bytes - memory.reserve_bytes) / memory.kv_cache.bytes_per_token
    assert inside == pytest.approx(1.35e6, rel=0.01)


def test_p50_the_engine_is_given_whole_pages(workspace: Any, facts: Facts) -> None:
    for size in ("8GiB", "8589934591B", "10MiB", "1GiB"):
        deployment = deployment_of(workspace, facts, **{"dpd.pd_buffer": size})
        buffer = pd_buffer(deployment.model, deployment.role("decode"), facts)
        assert int(deployment.env["PD_BUFFER_SIZE"]) == buffer.whole_bytes
        assert buffer.whole_bytes % buffer.page_bytes == 0
        assert 0 <= buffer.buffer_bytes - buffer.whole_bytes < buffer.page_bytes
        assert buffer.tokens * buffer.bytes_per_token == buffer.whole_bytes


def test_p50_pages_follow_the_kv_type_of_the_engine(workspace: Any, facts: Facts) -> None:
    deployment = deployment_of(workspace, facts, **{"serving.args": ["--kv-cache-dtype", "fp8"]})
    assert int(deployment.env["PD_BUFFER_SIZE"]) % (20_480 * 256) == 0


def test_eight_gib_absorb_twelve_seconds_of_a_standing_decoder() -> None:
    # 4.2 requests per second of 4,096 tokens.
    assert LLAMA_70B.stall_s(4.2, 4096) == pytest.approx(12.2, rel=0.01)


def test_the_recommended_buffer_holds_what_is_in_flight_and_one_longest_prompt() -> None:
    assert prompts_in_flight(4.2, 0.3, 2.33) == 4
    # 4 x 4,096 tokens and 16,384 tokens are 1.25 GiB.
    assert recommended_bytes(LLAMA_70B, 4, 4096, 16_384) == 2 * GIB
    assert recommended_bytes(LLAMA_70B, 0, 4096, 131_072) == 5 * GIB, "exactly whole GiB"
    assert recommended_bytes(LLAMA_70B, 0, 4096, 131_073) == 6 * GIB


def test_a_buffer_of_the_recommended_size_satisfies_the_rules(workspace: Any, facts: Facts) -> None:
    recommended = recommended_bytes(LLAMA_70B, 5, 5000, 16_384)
    sized = PdBuffer(recommended, 40_960, 256)
    assert sized.prompts(5000) >= 5
    assert sized.prompts(16_384) >= 1
