"""RTG: which prompts are disaggregated, and who routes them."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EngineContext, Hit, ModelContext, engine_rule, model_rule
from dpd.spec.lmcache import chunk_tokens

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"
_THRESHOLD = ("dpd", "routing", "threshold_tokens")
_ONE_ROUTER = {"operator": "the operator runs its own router", "local": "this machine runs one router"}


@engine_rule(
    "RTG001",
    Severity.ERROR,
    Doc(
        title="Threshold at or above the context length",
        symptom="The prefill nodes idle; every request is served by the decoder alone (P-70).",
        cause="No prompt can be as long as the threshold.",
        fix="Lower the threshold below the length of the prompts that should be disaggregated.",
        source=_DPD_PAGE,
        bad="serving: {max_model_len: 16384}\ndpd: {routing: {threshold_tokens: 16384}}",
        good="dpd: {routing: {threshold_tokens: 4096}}",
    ),
)
def threshold_reachable(context: EngineContext) -> Iterable[Hit]:
    """Compare the threshold with the context length."""
    deployment = context.deployment
    threshold, longest = deployment.model.dpd.routing.threshold_tokens, deployment.max_model_len
    if deployment.disaggregated and threshold >= longest:
        yield Hit(
            path=_THRESHOLD,
            message=f"no prompt reaches {threshold} tokens, the context holds {longest}",
            got=threshold,
            allowed=f"less than {longest}",
            fix="lower it",
        )


@model_rule(
    "RTG002",
    Severity.WARNING,
    Doc(
        title="Threshold below the chunk size",
        symptom="Short prompts go through a prefiller, and their last part is recomputed (P-54).",
        cause="LMCache moves whole chunks; a prompt below one chunk gains nothing.",
        fix="Raise the threshold to the chunk size or above, or set 0 on purpose for tests.",
        source="LMCache/LMCache#2459",
        bad="dpd: {routing: {threshold_tokens: 100}}",
        good="dpd: {routing: {threshold_tokens: 4096}}",
    ),
)
def threshold_above_chunk(context: ModelContext) -> Iterable[Hit]:
    """Report a threshold between 0 and the chunk size; 0 means every prompt, and is deliberate."""
    threshold = context.deployment.model.dpd.routing.threshold_tokens
    engine = context.deployment.roles[-1].engine
    chunk = chunk_tokens(context.deployment.env, engine, context.facts)
    if context.deployment.disaggregated and 0 < threshold < chunk:
        yield Hit(
            path=_THRESHOLD,
            message=f"{threshold} tokens is less than a chunk of {chunk}",
            got=threshold,
            allowed=f"0, or {chunk} and more",
            fix=f"raise it to {chunk} or more",
        )


@engine_rule(
    "RTG003",
    Severity.ERROR,
    Doc(
        title="More than one router",
        symptom="Requests hang: the router that waits for a prefill is not the one that is told of its end.",
        cause="LMCache's prefiller notifies one address; with several routers behind it, a random one.",
        fix="Keep `dpd.routing.replicas` at 1.",
        source="lmcache 0.4.3 pd_backend.py (ProxyNotif); vllm-project/production-stack#890",
        bad="dpd: {routing: {replicas: 2}}",
        good="dpd: {routing: {replicas: 1}}",
    ),
)
def one_router(context: EngineContext) -> Iterable[Hit]:
    """Report router replicas above one where LMCache notifies, or the user does not run the router."""
    deployment = context.deployment
    replicas = deployment.model.dpd.routing.replicas
    notifies = deployment.disaggregated and deployment.model.dpd.transport == "lmcache"
    why = "LMCache notifies one router" if notifies else _ONE_ROUTER.get(deployment.runtime)
    if replicas == 1 or why is None:
        return
    yield Hit(
        path=("dpd", "routing", "replicas"),
        message=f"{why}, got {replicas}",
        got=replicas,
        allowed=1,
        fix="set it to 1",
    )
