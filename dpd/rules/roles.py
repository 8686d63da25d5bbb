"""SRV: what prefill and decode must have in common, or KV cache does not mean the same on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.arguments import argument_path_of, flag_path
from dpd.rules.registry import Doc, EngineContext, Hit, ModelContext, engine_rule, model_rule

_LMCACHE_PD = "lmcache 0.4.3 pd_backend.py"
# Flags that both roles must share, with what breaks otherwise (vllm#42895, LMCache 0.4.3 cache keys).
_SHARED_FLAGS = ("block-size", "max-model-len", "kv-cache-dtype", "dtype", "quantization")


@engine_rule(
    "SRV001",
    Severity.ERROR,
    Doc(
        title="PYTHONHASHSEED is not one fixed integer",
        symptom="Answers are right and prefill is repeated: `Retrieved 0 out of N required tokens` (P-47).",
        cause="LMCache names chunks by Python's hash; without a fixed seed each process has its own.",
        fix="Remove the variable (the package sets 0), or set one whole number.",
        source="LMCache/LMCache#2979",
        bad="dpd: {environment: {PYTHONHASHSEED: random}}",
        good='dpd: {environment: {PYTHONHASHSEED: "0"}}',
    ),
)
def hash_seed(context: EngineContext) -> Iterable[Hit]:
    """Report a seed that is not a whole number of 32 bits, as Python demands."""
    seed = context.deployment.env.get("PYTHONHASHSEED", "")
    if not re.fullmatch(r"[0-9]{1,10}", seed) or int(seed) > 2**32 - 1:
        yield Hit(
            path=("dpd", "environment", "PYTHONHASHSEED"),
            message=f"PYTHONHASHSEED `{seed}` is not one fixed integer; prefill and decode disagree on keys",
            got=seed,
            allowed="a whole number from 0 to 4294967295",
            fix='remove it or set "0"',
        )


@model_rule(
    "SRV002",
    Severity.ERROR,
    Doc(
        title="Tensor parallel differs between roles",
        symptom="Crash or hang at the first disaggregated request, healthy before (P-56, P-64).",
        cause="Rank n of the prefiller sends to rank n of the decoder; LMCache does not reshape KV cache.",
        fix="Set `serving.tensor_parallel` once and leave it out of the roles' arguments.",
        source=_LMCACHE_PD,
        bad="dpd: {decode: {args: [-tp, '4']}}  # tensor_parallel 8",
        good="serving: {tensor_parallel: 8}",
    ),
)
def equal_tensor_parallel(context: ModelContext) -> Iterable[Hit]:
    """Report unequal ranks on the LMCache transport."""
    deployment = context.deployment
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache":
        return
    prefill, decode = deployment.role("prefill"), deployment.role("decode")
    if prefill.resources.gpus == decode.resources.gpus:
        return
    wanted = deployment.model.serving.tensor_parallel
    odd = decode if decode.resources.gpus != wanted else prefill
    yield Hit(
        path=flag_path(deployment, odd, "tensor-parallel-size", ("serving", "tensor_parallel")),
        message=(
            f"tensor parallel is {prefill.resources.gpus} for prefill and {decode.resources.gpus} for decode"
        ),
        got=odd.resources.gpus,
        allowed=wanted,
        fix="set serving.tensor_parallel once for both roles",
    )


@engine_rule(
    "SRV003",
    Severity.ERROR,
    Doc(
        title="Roles disagree on the shape of the KV cache",
        symptom="Handshake failures, recomputation, or fluent nonsense while /health answers 200 (P-65).",
        cause="Block size, context length or KV type differ, so pages do not mean the same on both sides.",
        fix="Write these flags in `serving.args`, which both roles share.",
        source="vllm-project/vllm#42895",
        bad="dpd: {decode: {args: [--block-size, '32']}}",
        good="serving: {args: [--block-size, '32']}",
    ),
)
def equal_shape(context: EngineContext) -> Iterable[Hit]:
    """Report each flag of the KV cache's shape that the roles set differently."""
    deployment = context.deployment
    if not deployment.disaggregated:
        return
    prefill, decode = deployment.role("prefill"), deployment.role("decode")
    for flag in _SHARED_FLAGS:
        left, right = prefill.engine.values.get(flag), decode.engine.values.get(flag)
        if left == right:
            continue
        odd = decode if (argument_path_of(deployment, decode, flag)) else prefill
        yield Hit(
            path=flag_path(deployment, odd, flag, ("serving",)),
            message=f"--{flag} is {_shown(left)} for prefill and {_shown(right)} for decode",
            got=_shown(odd.engine.values.get(flag)),
            allowed="the same value for both roles",
            fix="write it once in serving.args",
        )


def _shown(value: object) -> str:
    return "the default" if value is None else str(value)


@model_rule(
    "SRV004",
    Severity.ERROR,
    Doc(
        title="Decoder with prefix caching on",
        symptom="The decoder stops after some dozen warm requests, when its buffer is full (P-53).",
        cause="With LMCache 0.4.x a page that vLLM's own prefix cache covers is never freed.",
        fix="Remove --enable-prefix-caching from the decoder's arguments; the package switches it off.",
        source="LMCache/LMCache#2933",
        bad="dpd: {decode: {args: [--enable-prefix-caching]}}",
        good="dpd: {decode: {args: []}}",
    ),
)
def decoder_prefix_caching(context: ModelContext) -> Iterable[Hit]:
    """Report a decoder whose effective prefix caching is not off, unless its LMCache is known safe."""
    deployment = context.deployment
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache" or deployment.vllm is None:
        return
    version = deployment.image.fact.lmcache_version if deployment.image.fact else None
    row = context.facts.lmcache.get(version or "")
    decode = deployment.role("decode")
    if (row is not None and row.decode_prefix_caching_safe) or (
        decode.engine.values.get("enable-prefix-caching") is False
    ):
        return
    yield Hit(
        path=flag_path(deployment, decode, "enable-prefix-caching", ("dpd", "decode", "args")),
        message=f"prefix caching is on for decode, and LMCache {version or '(unknown)'} leaks its pages",
        got="--enable-prefix-caching",
        allowed="--no-enable-prefix-caching",
        fix="remove the argument",
    )


@engine_rule(
    "SRV007",
    Severity.ERROR,
    Doc(
        title="@ in the model name",
        symptom="Every lookup misses: LMCache splits its keys at the wrong place.",
        cause="LMCache separates the parts of a cache key with @, and the model name is the first part.",
        fix="Serve the model from a path or name without @.",
        source="lmcache 0.4.3 utils.py: CacheEngineKey",
        bad="huggingface_id: org/model@main",
        good="huggingface_id: org/model  # and weights.revision",
    ),
)
def at_sign(context: EngineContext) -> Iterable[Hit]:
    """Report @ in the name that becomes part of cache keys."""
    name = context.deployment.model.huggingface_id
    if "@" in name:
        yield Hit(
            path=("huggingface_id",),
            message=f"`{name}` holds @, which separates the parts of LMCache's keys",
            got=name,
            allowed="a name without @",
            fix="name a revision in weights.revision instead",
        )
