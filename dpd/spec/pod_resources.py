"""What one pod asks of its node: GPUs, EFA devices, cores and memory."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts, InstanceFact
from dpd.quantity import GIB
from dpd.spec.model import Model, Resources


@dataclass(frozen=True, slots=True)
class PodResources:
    """Hold what one pod of a role asks for."""

    gpus: int
    efa_devices: int
    cpu: int
    memory_request_bytes: int
    memory_limit_bytes: int
    l1_cache_bytes: int
    """Host memory of LMCache's cache, all ranks together; part of the request."""
    memory_share_bytes: int
    """What the pod may ask for beside other pods of the node; 0 on an unknown instance type."""


def efa_share(gpus: int, instance: InstanceFact) -> int:
    """Return the EFA devices that belong to ``gpus`` of a node."""
    return instance.efa_devices * gpus // instance.gpu_count if instance.gpu_count else 0


def pod_resources(
    gpus: int, model: Model, instance: InstanceFact | None, facts: Facts, asked: Resources, *, with_l1: bool
) -> PodResources:
    """Size one pod: its share of the node's EFA devices and cores, and memory for what it holds.

    Less than the whole share of cores and memory is taken, so that sidecars and system pods fit beside it.
    What ``asked`` names wins; EFA003 and HST002 say where that cannot work.
    """
    share = gpus / instance.gpu_count if instance and instance.gpu_count else 0.0
    l1_bytes = model.dpd.l1_cache.size_per_rank * gpus if with_l1 and model.dpd.l1_cache.enabled else 0
    request = int(facts.constant("host_memory_base_gib") * GIB) + l1_bytes
    memory = instance.memory_bytes * share * facts.constant("pod_memory_share") if instance else 0
    memory_share = int(memory) // GIB * GIB
    efa = efa_share(gpus, instance) if instance else 0
    cpu = max(1, int(instance.vcpus * share * facts.constant("pod_cpu_share"))) if instance else 1
    return PodResources(
        gpus=gpus,
        efa_devices=efa if asked.efa_devices is None else asked.efa_devices,
        cpu=asked.cpu or cpu,
        memory_request_bytes=asked.memory or request,
        memory_limit_bytes=asked.memory or max(memory_share, request),
        l1_cache_bytes=l1_bytes,
        memory_share_bytes=memory_share,
    )
