"""Whether to disaggregate this model for this workload, and from which prompt length on.

The comparison is with colocated replicas on the same number of GPUs: AWS's published gains compare
twice the GPUs, which flatters disaggregation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpd.facts import Facts
from dpd.sizing.load import (
    Latency,
    Layout,
    Prefillers,
    colocated,
    context_tokens,
    decode_latency,
    prefillers,
    sequences_per_replica,
    through_prefillers,
)
from dpd.sizing.roofline import Roofline, not_covered, roofline
from dpd.spec.deployment import Deployment, RoleDeployment
from dpd.spec.lmcache import chunk_tokens

Verdict = Literal["disaggregate", "colocate", "unknown"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Hold the verdict with the numbers of both layouts, on the same GPUs."""

    verdict: Verdict
    reason: str
    colocated: Layout | None = None
    configured: Latency | None = None
    """What streams see in the configured layout."""
    prefillers: Prefillers | None = None
    threshold_tokens: int | None = None
    """Longest prompt that a decoder may prefill itself within the ITL objective, in whole pages."""
    mean_error: float | None = None
    """Mean relative error of the step times; None for quantised weights, for which nobody measured it."""


def advise(deployment: Deployment, facts: Facts) -> Advice:
    """Compare the configured layout with colocated replicas on the same GPUs."""
    model = deployment.model
    role = deployment.roles[-1]
    estimate = roofline(model, role, facts)
    if estimate is None:
        return Advice("unknown", not_covered(model, role, facts))
    gpus = sum(role.replicas * role.resources.gpus for role in deployment.roles)
    replicas = max(1, gpus // role.resources.gpus)
    layout = colocated(estimate, model.workload, role, replicas)
    verdict, reason = _verdict(layout, model.workload.slo.itl_p99_ms / 1e3, facts)
    if through_prefillers(deployment):
        configured = decode_latency(estimate, model.workload, role)
    else:
        configured = colocated(estimate, model.workload, role, role.replicas).latency
    return Advice(
        verdict=verdict,
        reason=reason,
        colocated=layout,
        configured=configured,
        prefillers=prefillers(deployment, facts),
        threshold_tokens=_threshold(estimate, deployment, role, facts),
        mean_error=None if model.architecture.quantization else facts.constant("roofline_mean_error"),
    )


def _verdict(layout: Layout, itl_slo_s: float, facts: Facts) -> tuple[Verdict, str]:
    least = facts.constant("disaggregate_minimum_prefill_duty")
    itl_s = layout.latency.itl_p99_s
    share = f"prefill takes {layout.prefill_duty:.0%} of {layout.replicas} colocated replicas"
    if itl_s is not None and itl_s <= itl_slo_s:
        return "colocate", f"{share}, and they keep the ITL objective"
    if layout.prefill_duty < least:
        return "colocate", f"{share}; below {least:.0%}, one more of them does more"
    return "disaggregate", f"{share} ({least:.0%} is enough), and breaks the ITL objective"


def _threshold(estimate: Roofline, deployment: Deployment, role: RoleDeployment, facts: Facts) -> int | None:
    """Return the longest local prefill, in whole pages, whose step stays within the ITL objective.

    None where even one page does not. The share of short prompts in the traffic would lower it further.
    """
    workload = deployment.model.workload
    sequences, context = sequences_per_replica(workload, role, role.replicas), context_tokens(workload)
    page = chunk_tokens(deployment.model.dpd.environment, role.engine, facts)
    slo_s = workload.slo.itl_p99_ms / 1e3
    # One step holds the whole prompt up to the chunk size; beyond it, more steps follow of that length.
    low, high = 0, max(1, min(estimate.chunk_tokens, deployment.max_model_len) // page)
    while low < high:
        middle = (low + high + 1) // 2
        fits = estimate.longest_step_s(middle * page, sequences, context) <= slo_s
        low, high = (middle, high) if fits else (low, middle - 1)
    return low * page or None
