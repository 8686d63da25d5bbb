"""HST: what pods take of their nodes."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.quantity import GIB, format_bytes, format_gib
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.sizing.host import host


@model_rule(
    "HST001",
    Severity.ERROR,
    Doc(
        title="Pod asks for more memory than its share of the node",
        symptom="Pods stay Pending with `Insufficient memory`, on nodes that are paid for.",
        cause="LMCache's host cache counts per rank; with the engine and /dev/shm it outgrows the node.",
        fix="Lower `dpd.l1_cache.size_per_rank` to the figure in the message, or disable the cache.",
        source="docs/sizing.md; lmcache 0.4.3 config.py (max_local_cpu_size)",
        bad="dpd: {l1_cache: {size_per_rank: 300GiB}}  # tensor_parallel 8, 2 TiB nodes",
        good="dpd: {l1_cache: {size_per_rank: 200GiB}}",
    ),
)
def memory_fits(context: ModelContext) -> Iterable[Hit]:
    """Compare each role's host memory with its share; CAP006 and SRV006 report impossible roles first."""
    for role in context.deployment.roles:
        use = host(role, context.facts)
        if use is None or role.instance is None or not role.instance.supports_dpd:
            continue
        if role.resources.gpus > role.instance.gpu_count or use.needed_bytes <= use.share_bytes:
            continue
        room = (use.share_bytes - use.base_bytes - use.shm_bytes) // role.resources.gpus // GIB * GIB
        yield Hit(
            path=("dpd", "l1_cache", "size_per_rank"),
            message=(
                f"{role.name}: engine {format_gib(use.base_bytes, 0)}, host cache of {role.resources.gpus} "
                f"ranks {format_gib(use.l1_cache_bytes, 0)} and /dev/shm {format_gib(use.shm_bytes, 0)} need "
                f"{format_gib(use.needed_bytes, 0)}; the pod's share of {role.group.instance_type} is "
                f"{format_gib(use.share_bytes, 0)}"
            ),
            got=context.deployment.model.dpd.l1_cache.size_per_rank,
            allowed=f"{format_bytes(max(0, room))} or less",
            fix=f"set it to {format_bytes(room)} or less" if room > 0 else "disable the cache",
        )


@model_rule(
    "HST002",
    Severity.ERROR,
    Doc(
        title="Pod override that its node or its content does not fit",
        symptom="Pods stay Pending, or the kernel kills the engine when its host cache fills.",
        cause="`resources.memory` and `resources.cpu` replace what follows from the pod's GPUs.",
        fix="Leave them out, or stay within the figures in the message.",
        source="docs/sizing.md",
        bad="dpd: {prefill: {resources: {memory: 64GiB}}}",
        good="dpd: {prefill: {resources: {memory: 512GiB}}}",
    ),
)
def override_fits(context: ModelContext) -> Iterable[Hit]:
    """Compare overridden memory and cores with need and share; HST001 reports what cannot fit at all."""
    for role in context.deployment.roles:
        use, instance = host(role, context.facts), role.instance
        if use is None or instance is None or not instance.supports_dpd or role.name == "worker":
            continue
        asked = getattr(context.deployment.model.dpd, role.name).resources
        if role.resources.gpus > instance.gpu_count or use.needed_bytes > use.share_bytes:
            continue
        if asked.memory and not use.needed_bytes <= asked.memory <= use.share_bytes:
            least, most = format_gib(use.needed_bytes, 0), format_gib(use.share_bytes, 0)
            yield Hit(
                path=("dpd", role.name, "resources", "memory"),
                message=(
                    f"{role.name} asks for {format_gib(asked.memory, 0)}; engine, caches and /dev/shm need "
                    f"{least}, and its share of {role.group.instance_type} is {most}"
                ),
                got=asked.memory,
                allowed=f"{least} to {most}",
                fix="leave it out",
            )
        cores = instance.vcpus * role.resources.gpus // instance.gpu_count
        if asked.cpu and asked.cpu > cores:
            yield Hit(
                path=("dpd", role.name, "resources", "cpu"),
                message=f"{role.name} asks for {asked.cpu} cores; its share of the node is {cores}",
                got=asked.cpu,
                allowed=f"{cores} or less",
                fix="leave it out",
            )
