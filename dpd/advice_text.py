"""Say in sentences what the sizes of an environment mean for the person who runs it."""

from __future__ import annotations

from collections.abc import Iterator

from dpd.model_plan import BufferUse, ModelPlan
from dpd.plan import Plan
from dpd.quantity import format_bytes
from dpd.sizing.advice import Advice
from dpd.sizing.load import Latency
from dpd.spec.deployment import Deployment


def environment_advice(plan: Plan) -> Iterator[str]:
    """Yield what concerns the environment as a whole."""
    kubernetes, network = plan.environment.kubernetes, plan.environment.network
    support = plan.facts.kubernetes.get(kubernetes.version)
    if support and support.standard_support_until:
        yield (
            f"EKS standard support of {kubernetes.version} ends on {support.standard_support_until}; the "
            "control plane costs more from then on"
        )
    if not kubernetes.admin_arns:
        yield "nobody can use kubectl: kubernetes.admin_arns is empty"
    if network.placement_group != "none":
        yield "the placement group stays empty of HyperPod nodes: they cannot join one"


def model_advice(plan: ModelPlan) -> Iterator[str]:
    """Yield what concerns one model: the layout, the pools, the threshold, the memory."""
    yield from _transport(plan.deployment)
    yield from _layout(plan)
    yield from _prefillers(plan.advice)
    yield from _threshold(plan)
    if plan.buffer is not None:
        yield from _buffer(plan, plan.buffer)
    yield from _memory(plan)


def _transport(deployment: Deployment) -> Iterator[str]:
    """Say why a model moves its KV cache with NixlConnector, and what that means here."""
    architecture = deployment.model.architecture
    if not deployment.disaggregated or deployment.model.dpd.transport != "nixl":
        return
    if architecture.moe or architecture.attention == "mla":
        kind = "MLA" if architecture.attention == "mla" else "mixtures of experts"
        yield f"nixl transport: LMCache's is not validated for {kind} (WRK004); AWS advises dense models"
    yield "nixl needs the self-managed runtime, which this version cannot deploy (OPR011); try colocated"


def _layout(plan: ModelPlan) -> Iterator[str]:
    advice, slo = plan.advice, plan.deployment.model.workload.slo
    if advice.verdict == "unknown":
        yield f"no advice on disaggregation: {advice.reason}"
        return
    error = f"+-{advice.mean_error:.0%}" if advice.mean_error else "error not known: quantised weights"
    yield f"{advice.verdict}: {advice.reason}"
    if advice.configured is not None:
        yield f"as configured: {_latency(advice.configured)} ({error}); ITL objective {slo.itl_p99_ms:g} ms"
    if advice.colocated is not None:
        layout = advice.colocated
        yield (
            f"{layout.replicas} colocated, same GPUs: {_latency(layout.latency)}; steps up to "
            f"{layout.longest_step_s * 1e3:,.0f} ms"
        )


def _latency(latency: Latency) -> str:
    if latency.tpot_s is None or latency.itl_p99_s is None:
        return "cannot keep up with the rate"
    return f"TPOT {latency.tpot_s * 1e3:.1f} ms, ITL p99 {latency.itl_p99_s * 1e3:,.0f} ms"


def _prefillers(advice: Advice) -> Iterator[str]:
    pool = advice.prefillers
    if pool is None:
        return
    if not pool.requests_per_second:
        yield "prompts of the workload are under the routing threshold, so prefillers stay idle"
        return
    yield (
        f"prefillers {pool.utilization:.0%} busy, {pool.service_s * 1e3:,.0f} ms a prompt; {pool.needed} of "
        f"{pool.replicas} needed to stay below {pool.highest_utilization:.0%}"
    )


def _threshold(plan: ModelPlan) -> Iterator[str]:
    deployment, advice = plan.deployment, plan.advice
    if not deployment.disaggregated or advice.verdict == "unknown":
        return
    configured = deployment.model.dpd.routing.threshold_tokens
    if advice.threshold_tokens is None:
        yield "routing threshold 0: any prompt that a decoder prefills breaks the ITL objective"
    elif advice.threshold_tokens < configured:
        yield (
            f"routing threshold {advice.threshold_tokens:,}, not {configured:,}: longer prefills on a "
            "decoder break the ITL objective"
        )


def _buffer(plan: ModelPlan, use: BufferUse) -> Iterator[str]:
    stall = "" if use.stall_s is None else f"; yours absorbs {use.stall_s:,.0f} s of decoder stall"
    yield f"PD buffer: {format_bytes(use.recommended_bytes)} holds the workload and one longest prompt{stall}"


def _memory(plan: ModelPlan) -> Iterator[str]:
    for role in plan.deployment.roles:
        fits, admitted = plan.sequences(role), role.engine.integer("max-num-seqs")
        if fits is not None and admitted is not None and fits < admitted:
            yield (
                f"{role.name}: KV room for {fits} sequences of the workload, max_num_seqs is {admitted}; "
                "the rest is preempted and computed again"
            )
    shape = plan.deployment.model.architecture
    if shape.sliding_window_layers and plan.deployment.disaggregated:
        yield (
            f"{shape.sliding_window_layers} of {shape.layers} layers have a sliding window; they count in "
            "full, because vLLM keeps whole prompts where KV cache is transferred"
        )
