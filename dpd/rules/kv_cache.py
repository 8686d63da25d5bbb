"""KVC: the PD buffer and GPU memory, with the numbers of the sizing."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.facts import InstanceFact
from dpd.finding import Severity
from dpd.quantity import GIB, format_bytes, format_gib
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.sizing.gpu_memory import gpu_memory
from dpd.sizing.kv_cache import PdBuffer, pd_buffer, prompts_in_flight, recommended_bytes
from dpd.sizing.load import transferred_per_second
from dpd.spec.deployment import RoleDeployment


def _buffer(context: ModelContext) -> PdBuffer | None:
    """Return the decoder's buffer where LMCache moves the KV cache."""
    deployment = context.deployment
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache":
        return None
    return pd_buffer(deployment.model, deployment.role("decode"), context.facts)


@model_rule(
    "KVC001",
    Severity.ERROR,
    Doc(
        title="Longest prompt does not fit the PD buffer",
        symptom="The prefiller retries `Failed to allocate memory object` for ever, and every prompt behind "
        "it waits (P-49, P-51, P-55).",
        cause="LMCache holds a prompt in whole pages, and nothing frees them until decode reads them.",
        fix="Raise `dpd.pd_buffer`, or lower `serving.max_model_len` to the figure in the message.",
        source="LMCache/LMCache#4209; lmcache 0.4.3 pd_backend.py",
        bad="serving: {max_model_len: 131072, tensor_parallel: 4}\ndpd: {pd_buffer: 8GiB}",
        good="serving: {max_model_len: 131072, tensor_parallel: 4}\ndpd: {pd_buffer: 10GiB}",
    ),
)
def longest_prompt_fits(context: ModelContext) -> Iterable[Hit]:
    """Compare one prompt of the whole context length with the buffer."""
    buffer = _buffer(context)
    if buffer is None:
        return
    tokens = context.deployment.max_model_len
    needed = buffer.prompt_bytes(tokens)
    if needed > buffer.buffer_bytes:
        fix = f"raise it to {format_bytes(-(-needed // GIB) * GIB)}"
        if buffer.tokens:
            fix += f" or set serving.max_model_len to {buffer.tokens} or less"
        yield Hit(
            path=("dpd", "pd_buffer"),
            message=f"one {tokens}-token prompt needs {needed} bytes per rank, got {buffer.buffer_bytes}",
            got=buffer.buffer_bytes,
            allowed=f"{needed} bytes or more",
            fix=fix,
        )


@model_rule(
    "KVC002",
    Severity.WARNING,
    Doc(
        title="PD buffer smaller than the workload in flight",
        symptom="TTFT climbs under load, because prefillers wait for pages on the decoder (P-52).",
        cause="By Little's law, rate times residence gives the prompts that wait; a margin is for bursts.",
        fix="Raise `dpd.pd_buffer` to the figure in the message, which holds one longest prompt besides.",
        source="docs/sizing.md",
        bad="workload: {requests_per_second: 2, input_tokens: 7000}\ndpd: {pd_buffer: 768MiB}",
        good="workload: {requests_per_second: 2, input_tokens: 6000}\ndpd: {pd_buffer: 8GiB}",
    ),
)
def workload_fits(context: ModelContext) -> Iterable[Hit]:
    """Compare the prompts in flight with those that the buffer holds; KVC001 and WRK005 speak first."""
    buffer, longest = _buffer(context), context.deployment.max_model_len
    workload = context.deployment.model.workload
    if buffer is None or buffer.prompt_bytes(longest) > buffer.buffer_bytes:
        return
    if workload.input_tokens + workload.output_tokens > longest:
        return
    facts = context.facts
    in_flight = prompts_in_flight(
        transferred_per_second(context.deployment, facts),
        facts.constant("pd_buffer_residence_s"),
        facts.constant("poisson_quantile"),
    )
    holds = buffer.prompts(workload.input_tokens)
    if holds < in_flight:
        needed = recommended_bytes(buffer, in_flight, workload.input_tokens, longest)
        yield Hit(
            path=("dpd", "pd_buffer"),
            message=(
                f"the buffer holds {holds} prompts of {workload.input_tokens} tokens, the workload keeps "
                f"{in_flight} in flight"
            ),
            got=buffer.buffer_bytes,
            allowed=f"{needed} bytes or more",
            fix=f"raise it to {format_bytes(needed)}",
        )


def _on_gpus(context: ModelContext) -> list[tuple[RoleDeployment, InstanceFact]]:
    """Return the roles whose instance can run DPD and has the GPUs; CAP006 and SRV006 report the rest."""
    return [
        (role, role.instance)
        for role in context.deployment.roles
        if role.instance is not None
        and role.instance.supports_dpd
        and role.resources.gpus <= role.instance.gpu_count
    ]


@model_rule(
    "KVC003",
    Severity.ERROR,
    Doc(
        title="Weights, activations and KV cache do not fit",
        symptom="The engine stops at start with an out-of-memory error, or with `No available memory for the "
        "cache blocks`, on a node that is paid for.",
        cause="vLLM's fraction of GPU memory is smaller than weights, activations and one longest prompt.",
        fix="Raise tensor parallel or the fraction, quantise, shorten the context, or use larger GPUs.",
        source="docs/sizing.md",
        bad="architecture: {parameters: 405e9, dtype: bfloat16}\nserving: {tensor_parallel: 8}  # 80 GB GPUs",
        good="architecture: {parameters: 405e9, quantization: fp8}\nserving: {tensor_parallel: 8}",
    ),
)
def engine_fits(context: ModelContext) -> Iterable[Hit]:
    """Compare what the engine needs with its fraction; one hit for the first role that fails."""
    model = context.deployment.model
    for role, instance in _on_gpus(context):
        memory = gpu_memory(model, role, instance, context.facts)
        tokens = context.deployment.max_model_len
        prompt_bytes = memory.kv_cache.sequence_bytes(tokens)
        needed = memory.weight_bytes + memory.activation_bytes + prompt_bytes
        if needed <= memory.engine_bytes:
            continue
        yield Hit(
            path=("serving", "gpu_memory_utilization"),
            message=(
                f"{role.name}: weights {format_gib(memory.weight_bytes)}, activations "
                f"{format_gib(memory.activation_bytes)} and one {tokens}-token prompt "
                f"{format_gib(prompt_bytes)} need {format_gib(needed)} per GPU; {memory.utilization} of "
                f"{format_gib(memory.total_bytes)} is {format_gib(memory.engine_bytes)}"
            ),
            got=memory.utilization,
            allowed=f"{needed} bytes per GPU",
            fix="raise tensor_parallel or the fraction, quantise, shorten the context, or use larger GPUs",
        )
        return


@model_rule(
    "KVC004",
    Severity.ERROR,
    Doc(
        title="Fraction, PD buffer and reserve exceed GPU memory",
        symptom="The engine starts and dies with a CUDA out-of-memory error when the buffer is allocated.",
        cause="The PD buffer, the CUDA context, graphs and NCCL lie outside vLLM's fraction.",
        fix="Lower `serving.gpu_memory_utilization` or `dpd.pd_buffer`.",
        source="docs/sizing.md",
        bad="serving: {gpu_memory_utilization: 0.9}\ndpd: {pd_buffer: 8GiB}  # 80 GB GPUs",
        good="serving: {gpu_memory_utilization: 0.75}\ndpd: {pd_buffer: 8GiB}",
    ),
)
def buffer_fits(context: ModelContext) -> Iterable[Hit]:
    """Add up fraction, buffer and reserve; one hit for the first role that fails."""
    model = context.deployment.model
    for role, instance in _on_gpus(context):
        memory = gpu_memory(model, role, instance, context.facts)
        if memory.free_bytes >= 0:
            continue
        largest = memory.largest_utilization
        # A buffer that leaves the engine nothing is itself what is wrong.
        possible = largest > 0
        yield Hit(
            path=("serving", "gpu_memory_utilization") if possible else ("dpd", "pd_buffer"),
            message=(
                f"{role.name}: {memory.utilization} of {format_gib(memory.total_bytes)} plus the PD buffer "
                f"{format_gib(memory.pd_buffer_bytes)} plus the reserve {format_gib(memory.reserve_bytes)} "
                f"exceed the GPU by {format_gib(-memory.free_bytes)}"
            ),
            got=memory.utilization if possible else memory.pd_buffer_bytes,
            allowed=f"{largest} or less" if possible else "less than the memory of the GPU",
            fix=f"set it to {largest} or less, or lower dpd.pd_buffer" if possible else "lower dpd.pd_buffer",
        )
        return
