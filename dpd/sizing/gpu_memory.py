"""What fills the memory of one GPU, and what room it leaves for KV cache.

vLLM's fraction holds weights, activations and KV cache. The PD buffer and the runtime (CUDA context,
graphs, NCCL) lie outside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts, InstanceFact
from dpd.quantity import GIB
from dpd.sizing.kv_cache import KvCache, kv_cache
from dpd.spec.deployment import RoleDeployment
from dpd.spec.model import Model


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Hold the budget of one rank, in bytes."""

    total_bytes: int
    utilization: float
    weight_bytes: int
    activation_bytes: int
    pd_buffer_bytes: int
    reserve_bytes: int
    kv_cache: KvCache

    @property
    def engine_bytes(self) -> int:
        """Return what vLLM may use."""
        return int(self.total_bytes * self.utilization)

    @property
    def kv_room_bytes(self) -> int:
        """Return what is left for KV cache inside vLLM's fraction; negative if nothing is."""
        return self.engine_bytes - self.weight_bytes - self.activation_bytes

    @property
    def kv_room_tokens(self) -> int:
        """Return the KV room in tokens, all layers full; 0 where weights leave none."""
        return max(0, self.kv_room_bytes) // self.kv_cache.bytes_per_token

    def sequences(self, tokens: int) -> int:
        """Return how many sequences of ``tokens`` the KV room holds at once."""
        return max(0, self.kv_room_bytes) // self.kv_cache.sequence_bytes(tokens)

    @property
    def free_bytes(self) -> int:
        """Return what neither vLLM, the PD buffer nor the reserve takes; negative if too much is taken."""
        return self.total_bytes - self.engine_bytes - self.pd_buffer_bytes - self.reserve_bytes

    @property
    def largest_utilization(self) -> float:
        """Return the largest safe `gpu_memory_utilization`, rounded down to two digits."""
        share = (self.total_bytes - self.pd_buffer_bytes - self.reserve_bytes) / self.total_bytes
        return int(share * 100) / 100


def gpu_memory(model: Model, role: RoleDeployment, instance: InstanceFact, facts: Facts) -> GpuMemory:
    """Budget one rank of ``role`` on ``instance``, from the effective engine arguments."""
    tensor_parallel = role.resources.gpus
    batched_tokens = role.engine.integer("max-num-batched-tokens") or int(
        facts.constant("max_num_batched_tokens_default")
    )
    utilization = role.engine.values.get("gpu-memory-utilization", model.serving.gpu_memory_utilization)
    uses_buffer = role.name != "worker" and model.dpd.transport == "lmcache"
    per_token = facts.constant("activation_bytes_per_batched_token_and_hidden_unit")
    return GpuMemory(
        total_bytes=instance.gpu_memory_bytes,
        utilization=utilization if isinstance(utilization, float) else model.serving.gpu_memory_utilization,
        weight_bytes=model.architecture.weight_bytes // tensor_parallel,
        activation_bytes=int(per_token * batched_tokens * model.architecture.hidden_size),
        pd_buffer_bytes=model.dpd.pd_buffer if uses_buffer else 0,
        reserve_bytes=int(facts.constant("runtime_reserve_gib") * GIB),
        kv_cache=kv_cache(model, role),
    )
