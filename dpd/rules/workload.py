"""WRK: whether this traffic and this model gain from disaggregation at all."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EngineContext, Hit, ModelContext, engine_rule, model_rule
from dpd.sizing.advice import advise
from dpd.sizing.load import prefillers

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"


@model_rule(
    "WRK001",
    Severity.WARNING,
    Doc(
        title="Traffic will not gain from DPD",
        symptom="Twice the GPUs for the same latency.",
        cause="AWS measured a gain for inputs of 4,000 tokens, outputs of 256 and 2 requests per second on; "
        "below that, prefill takes too little of colocated replicas to disturb their decoding.",
        fix="Use `serving.mode: colocated` with more replicas, or describe the real traffic in `workload`.",
        source=f"{_DPD_PAGE}; docs/sizing.md",
        bad="workload: {input_tokens: 800, output_tokens: 64}",
        good="workload: {input_tokens: 6000, output_tokens: 256, requests_per_second: 2}",
    ),
)
def traffic_gains(context: ModelContext) -> Iterable[Hit]:
    """Compare the workload with the least that AWS names; one hit lists every shortfall.

    A low rate counts only where prefill would take too little of colocated replicas on the same GPUs.
    """
    deployment, facts = context.deployment, context.facts
    workload = deployment.model.workload
    if not deployment.disaggregated:
        return
    short = {
        name: f"{name} {value:g} < {facts.constant(limit):g}"
        for name, value, limit in (
            ("input_tokens", workload.input_tokens, "dpd_minimum_input_tokens"),
            ("output_tokens", workload.output_tokens, "dpd_minimum_output_tokens"),
            ("requests_per_second", workload.requests_per_second, "dpd_minimum_requests_per_second"),
        )
        if value < facts.constant(limit)
    }
    layout = advise(deployment, facts).colocated if short else None
    if layout and layout.prefill_duty >= facts.constant("disaggregate_minimum_prefill_duty"):
        short.pop("requests_per_second", None)
    if not short:
        return
    estimate = ""
    if layout is not None:
        estimate = (
            f"; {layout.replicas} colocated replicas on the same GPUs would spend "
            f"{layout.prefill_duty:.0%} of their time on prefill"
        )
    yield Hit(
        path=("workload",),
        message=f"this traffic hardly gains from disaggregation: {', '.join(short.values())}{estimate}",
        got=list(short.values()),
        fix="compare with serving.mode: colocated at the same number of GPUs",
    )


@model_rule(
    "WRK002",
    Severity.WARNING,
    Doc(
        title="Prefillers above 70 % busy",
        symptom="TTFT climbs to seconds under load, while decoders idle.",
        cause="A prompt waits `u / (2 (1 - u))` prompts on average at utilisation u; from 1 on, for ever.",
        fix="Add prefill replicas as the message says, lower the rate, or shorten prompts.",
        source="docs/sizing.md",
        bad="workload: {input_tokens: 8000, requests_per_second: 4}\ndpd: {prefill: {replicas: 1}}",
        good="workload: {input_tokens: 8000, requests_per_second: 4}\ndpd: {prefill: {replicas: 3}}",
    ),
)
def prefillers_keep_up(context: ModelContext) -> Iterable[Hit]:
    """Compare rate times prefill time with the prefill replicas, scaled out as far as they may."""
    deployment = context.deployment
    pool = prefillers(deployment, context.facts)
    if pool is None or pool.needed <= pool.replicas:
        return
    workload = deployment.model.workload
    yield Hit(
        path=("dpd", "prefill", "replicas"),
        message=(
            f"prefillers would be {pool.utilization:.0%} busy: {pool.requests_per_second:g} prompts per "
            f"second of {workload.input_tokens} tokens take about {pool.service_s * 1e3:.0f} ms each on "
            f"{pool.replicas} replica{'s' if pool.replicas > 1 else ''}"
        ),
        got=pool.replicas,
        allowed=f"{pool.needed} or more",
        fix=f"use {pool.needed} prefill replicas, or lower the rate",
    )


@model_rule(
    "WRK003",
    Severity.WARNING,
    Doc(
        title="More concurrency than validated",
        symptom="Stalls at high concurrency (P-58).",
        cause="AWS validated up to 64 concurrent requests on ml.p5.48xlarge with Llama-3.3-70B.",
        fix="Load-test before relying on it, or spread the traffic over more endpoints.",
        source=_DPD_PAGE,
        bad="workload: {concurrency: 200}",
        good="workload: {concurrency: 48}",
    ),
)
def validated_concurrency(context: ModelContext) -> Iterable[Hit]:
    """Compare the workload's concurrency with what AWS validated."""
    limit = int(context.facts.constant("validated_concurrency"))
    concurrency = context.deployment.model.workload.concurrency
    if context.deployment.disaggregated and concurrency > limit:
        yield Hit(
            path=("workload", "concurrency"),
            message=f"{concurrency} concurrent requests, validated are {limit}",
            got=concurrency,
            allowed=limit,
            fix="load-test first, or add endpoints",
        )


@model_rule(
    "WRK004",
    Severity.WARNING,
    Doc(
        title="MoE or MLA model on the LMCache transport",
        symptom="Little gain for MoE; with MLA, KV cache of a shape that LMCache 0.4.3 does not expect.",
        cause="LMCache 0.4.3 fixes its PD format to grouped-query attention, and AWS advises dense models.",
        fix="Use `transport: nixl` on the self-managed runtime, or serve colocated.",
        source=f"{_DPD_PAGE}; lmcache 0.4.3 pd_backend.py",
        bad="architecture: {moe: true}\ndpd: {transport: lmcache}",
        good="architecture: {moe: true}\ndpd: {transport: nixl}\nserving: {runtime: self_managed}",
    ),
)
def dense_models(context: ModelContext) -> Iterable[Hit]:
    """Report model families for which the LMCache transport is not meant."""
    deployment = context.deployment
    architecture = deployment.model.architecture
    kind = "MLA" if architecture.attention == "mla" else "a mixture of experts" if architecture.moe else ""
    if deployment.disaggregated and deployment.model.dpd.transport == "lmcache" and kind:
        yield Hit(
            path=("dpd", "transport"),
            message=f"{deployment.model.name} is {kind}, which the LMCache transport is not validated for",
            got="lmcache",
            allowed="nixl",
            fix="use nixl on the self-managed runtime, or serving.mode: colocated",
        )


@engine_rule(
    "WRK005",
    Severity.ERROR,
    Doc(
        title="Workload longer than the context",
        symptom="The engine refuses the requests with 400, and the plan sizes what cannot happen.",
        cause="Prompt and answer together must fit `max_model_len`.",
        fix="Raise `serving.max_model_len`, or describe shorter requests in `workload`.",
        source="vllm/entrypoints/openai/serving_engine.py",
        bad="serving: {max_model_len: 16384}\nworkload: {input_tokens: 16000, output_tokens: 512}",
        good="serving: {max_model_len: 16384}\nworkload: {input_tokens: 5000, output_tokens: 512}",
    ),
)
def fits_context(context: EngineContext) -> Iterable[Hit]:
    """Compare prompt plus answer of the workload with the context length."""
    workload, longest = context.deployment.model.workload, context.deployment.max_model_len
    if workload.input_tokens + workload.output_tokens > longest:
        too_long = workload.input_tokens >= longest
        yield Hit(
            path=("workload", "input_tokens" if too_long else "output_tokens"),
            message=(
                f"{workload.input_tokens} tokens of prompt and {workload.output_tokens} of answer exceed the "
                f"context of {longest}"
            ),
            got=workload.input_tokens + workload.output_tokens,
            allowed=f"{longest} together",
            fix="shorten them, or raise serving.max_model_len",
        )
