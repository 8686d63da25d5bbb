"""How busy the workload keeps replicas, and what latency that leaves, by the closed form of `roofline`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.sizing.roofline import Roofline, roofline
from dpd.spec.deployment import Deployment, RoleDeployment
from dpd.spec.model import Workload

# Share of tokens that a 99th percentile leaves out.
_BEYOND_P99 = 0.01


@dataclass(frozen=True, slots=True)
class Prefillers:
    """Say how busy the prefill pool is."""

    requests_per_second: float
    """Of all prefillers together; 0 where the router sends the workload's prompts straight to decode."""
    service_s: float
    """Time that one prompt of the workload takes on one prefiller."""
    replicas: int
    """As many as autoscaling may start."""
    highest_utilization: float

    @property
    def utilization(self) -> float:
        """Return the share of time that a prefiller works; 1 and more means that the queue grows for ever."""
        return self.requests_per_second * self.service_s / self.replicas

    @property
    def needed(self) -> int:
        """Return the fewest prefillers that stay below the highest utilisation."""
        return max(1, math.ceil(self.requests_per_second * self.service_s / self.highest_utilization))


@dataclass(frozen=True, slots=True)
class Latency:
    """Hold what a stream sees; both None where replicas cannot keep up with the rate."""

    tpot_s: float | None
    itl_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Describe replicas that prefill and decode the workload themselves."""

    replicas: int
    prefill_duty: float
    """Share of a replica's time that goes into prefill."""
    latency: Latency
    longest_step_s: float
    """Longest step of a prefill, for which every stream of the replica waits."""
    stalled_share: float
    """Share of steps that are such; 1 where replicas cannot keep up."""


def prefillers(deployment: Deployment, facts: Facts) -> Prefillers | None:
    """Return the load of the prefill pool; None without one, or where the closed form does not cover it."""
    if not deployment.disaggregated:
        return None
    model, role = deployment.model, deployment.role("prefill")
    estimate = roofline(model, role, facts)
    if estimate is None:
        return None
    workload = model.workload
    service_s = estimate.prefill_s(workload.input_tokens)
    if role.engine.values.get("enforce-eager") is True:
        # Fitted to AWS's published ranges, whose prefillers ran in eager mode.
        service_s *= facts.constant("eager_prefill_factor")
        service_s += facts.constant("eager_prefill_overhead_s") * estimate.chunks(workload.input_tokens)
    return Prefillers(
        requests_per_second=workload.requests_per_second if through_prefillers(deployment) else 0.0,
        service_s=service_s,
        replicas=max(role.replicas, role.scaling.max),
        highest_utilization=facts.constant("prefill_utilisation_target"),
    )


def through_prefillers(deployment: Deployment) -> bool:
    """Tell whether prompts of the workload's length pass the routing threshold."""
    model = deployment.model
    return deployment.disaggregated and model.workload.input_tokens >= model.dpd.routing.threshold_tokens


def transferred_per_second(deployment: Deployment, facts: Facts) -> float:
    """Return the prompts per second that reach the PD buffer: no more than prefillers can deliver."""
    if not through_prefillers(deployment):
        return 0.0
    asked, pool = deployment.model.workload.requests_per_second, prefillers(deployment, facts)
    return asked if pool is None else min(asked, pool.replicas / pool.service_s)


def sequences_per_replica(workload: Workload, role: RoleDeployment, replicas: int) -> int:
    """Return how many sequences one of ``replicas`` decodes at once, at most what its engine admits."""
    share = -(-workload.concurrency // replicas)
    admitted = role.engine.integer("max-num-seqs") or share
    return max(1, min(share, admitted))


def context_tokens(workload: Workload) -> int:
    """Return what a decoding sequence holds on average: its prompt and half of its answer."""
    return workload.input_tokens + workload.output_tokens // 2


def decode_latency(estimate: Roofline, workload: Workload, role: RoleDeployment) -> Latency:
    """Return what streams see on decoders that never prefill."""
    step_s = estimate.decode_s(sequences_per_replica(workload, role, role.replicas), context_tokens(workload))
    return Latency(step_s, step_s)


def colocated(estimate: Roofline, workload: Workload, role: RoleDeployment, replicas: int) -> Layout:
    """Return what streams see on ``replicas`` that prefill too, spread evenly.

    While a stream decodes, prompts of the others are prefilled in steps in which it also gets a token.
    The ITL quantile is such a step if more than 1 % of steps are.
    """
    sequences, context = sequences_per_replica(workload, role, replicas), context_tokens(workload)
    tokens, rate = workload.input_tokens, workload.requests_per_second / replicas
    duty = rate * estimate.prefill_s(tokens)
    step_s = estimate.decode_s(sequences, context)
    others = rate * (sequences - 1) / sequences
    free = 1 - others * estimate.prefill_s(tokens, sequences, context)
    longest_s = estimate.longest_step_s(tokens, sequences, context)
    if free <= 0 or duty >= 1:
        return Layout(replicas, duty, Latency(None, None), longest_s, 1.0)
    mixed_steps = others * estimate.chunks(tokens)
    steps = mixed_steps + free / step_s
    stalled = mixed_steps / steps
    itl_s = longest_s if stalled > _BEYOND_P99 else step_s
    return Layout(replicas, duty, Latency(1 / steps, itl_s), longest_s, stalled)
