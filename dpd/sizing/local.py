"""What engines on this machine take of its memory, and what their KV cache holds and moves."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.spec.kv_cache import kv_bytes_per_token, kv_dtype_bytes
from dpd.spec.local_deployment import LocalDeployment


@dataclass(frozen=True, slots=True)
class LocalMemory:
    """Hold the memory of one engine, in bytes; every engine of a model takes the same."""

    base_bytes: int
    """Server and engine process, before weights and KV cache."""
    weight_bytes: int
    kv_cache_bytes: int
    """Taken in full at start."""
    kv_bytes_per_token: int

    @property
    def engine_bytes(self) -> int:
        """Return what one engine takes."""
        return self.base_bytes + self.weight_bytes + self.kv_cache_bytes

    @property
    def kv_tokens(self) -> int:
        """Return how many tokens the KV cache of one engine holds, all layers full."""
        return self.kv_cache_bytes // self.kv_bytes_per_token


def local_memory(deployment: LocalDeployment, facts: Facts) -> LocalMemory:
    """Return the memory of one engine; simulated ones take less."""
    architecture = deployment.model.architecture
    dtype_bytes = kv_dtype_bytes(architecture, deployment.roles[-1].engine)
    return LocalMemory(
        base_bytes=int(facts.constant("cpu_engine_base_bytes")),
        weight_bytes=architecture.weight_bytes,
        kv_cache_bytes=deployment.environment.local.kv_cache,
        kv_bytes_per_token=kv_bytes_per_token(architecture, 1, dtype_bytes),
    )


def engine_count(deployment: LocalDeployment) -> int:
    """Return how many engines the model has, all roles together."""
    return sum(role.replicas for role in deployment.roles)
