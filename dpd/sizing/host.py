"""What one pod takes of its node's memory and cores, beside the pods of the system."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.spec.deployment import RoleDeployment


@dataclass(frozen=True, slots=True)
class Host:
    """Hold the host memory of one pod in bytes, and the cores."""

    base_bytes: int
    """Engine processes and the enumeration of EFA devices."""
    l1_cache_bytes: int
    """LMCache's cache, all ranks together."""
    shm_bytes: int
    """Least size of /dev/shm, which counts as memory of the pod when it fills."""
    share_bytes: int
    """What the pod may take beside the other pods of its node."""
    node_allocatable_bytes: int
    cores: int
    node_cores: int

    @property
    def needed_bytes(self) -> int:
        """Return what the pod takes when caches and shared memory are full."""
        return self.base_bytes + self.l1_cache_bytes + self.shm_bytes


def host(role: RoleDeployment, facts: Facts) -> Host | None:
    """Return the host use of one pod of ``role``; None where the instance type is not known."""
    if role.instance is None:
        return None
    resources = role.resources
    return Host(
        base_bytes=int(facts.constant("host_memory_base_gib") * GIB),
        l1_cache_bytes=resources.l1_cache_bytes,
        shm_bytes=int(facts.constant("shm_gib") * GIB),
        share_bytes=resources.memory_share_bytes,
        node_allocatable_bytes=int(role.instance.memory_bytes * facts.constant("allocatable_memory_share")),
        cores=resources.cpu,
        node_cores=role.instance.vcpus,
    )
