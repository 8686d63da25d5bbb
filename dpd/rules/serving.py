"""SRV: the engine's arguments and environment, read as the engine will read them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.spec.deployment import Deployment, RoleDeployment
from dpd.yaml_file import Path_

_LMCACHE_PD = "lmcache 0.4.3 pd_backend.py"

# Flags and variables that the manifests set; a second value would contradict Service, probes or sizing.
_MANAGED_FLAGS = ("model", "served-model-name", "port", "host")
_MANAGED_VARIABLES = {
    "PD_BUFFER_SIZE": "dpd.pd_buffer",
    "LMCACHE_MAX_LOCAL_CPU_SIZE": "dpd.l1_cache.size_per_rank",
}
# Flags that both roles must share, with what breaks otherwise (vllm#42895, LMCache 0.4.3 cache keys).
_SHARED_FLAGS = ("block-size", "max-model-len", "kv-cache-dtype", "dtype", "quantization")


def argument_path(deployment: Deployment, role: RoleDeployment, index: int) -> Path_ | None:
    """Return where the user wrote argument ``index`` of a role; None where the package wrote it."""
    shared_end = len(role.shared_args)
    shared_start = shared_end - len(deployment.model.serving.args)
    if shared_start <= index < shared_end:
        return ("serving", "args", index - shared_start)
    own = () if role.name == "worker" else getattr(deployment.model.dpd, role.name).args
    start = shared_end + len(role.args) - len(own)
    return ("dpd", role.name, "args", index - start) if index >= start else None


def flag_path(deployment: Deployment, role: RoleDeployment, flag: str, default: Path_) -> Path_:
    """Return where the last value of ``flag`` was written, ``default`` where the package wrote it."""
    index = role.engine.indices.get(flag)
    path = argument_path(deployment, role, index) if index is not None else None
    return path or default


@model_rule(
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
def hash_seed(context: ModelContext) -> Iterable[Hit]:
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


@model_rule(
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
def equal_shape(context: ModelContext) -> Iterable[Hit]:
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


def argument_path_of(deployment: Deployment, role: RoleDeployment, flag: str) -> Path_ | None:
    """Return where the user wrote ``flag`` for this role alone."""
    index = role.engine.indices.get(flag)
    path = argument_path(deployment, role, index) if index is not None else None
    return path if path and path[0] == "dpd" else None


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


@model_rule(
    "SRV005",
    Severity.ERROR,
    Doc(
        title="Argument that this vLLM does not take",
        symptom="The engine prints its usage and exits; the pod restarts for ever on paid GPUs.",
        cause="The vLLM release in the image does not know the flag, has removed it, or reads other values.",
        fix="Use the flag that the message proposes.",
        source="vllm/engine/arg_utils.py of the image's release",
        bad="dpd: {prefill: {args: [--disable-log-requests]}}",
        good="dpd: {prefill: {args: [--no-enable-log-requests]}}",
    ),
)
def known_arguments(context: ModelContext) -> Iterable[Hit]:
    """Report each argument that cannot be parsed against the image's release, once."""
    deployment = context.deployment
    vllm = deployment.vllm
    if vllm is None:
        return
    version = deployment.image.fact.vllm_version if deployment.image.fact else ""
    reported: set[Path_] = set()
    for role in deployment.roles:
        for problem in role.engine.problems:
            path = argument_path(deployment, role, problem.index) or ("serving", "image")
            if path in reported:
                continue
            reported.add(path)
            near = difflib.get_close_matches(problem.flag, vllm.flags, n=1)
            fix = f"did you mean --{near[0]}?" if near else "remove it"
            message = f"vLLM {version} has no flag {problem.text}"
            if problem.kind == "removed":
                message = f"vLLM {version} no longer has --{problem.flag}"
                fix = f"use {vllm.removed[problem.flag]}"
            elif problem.kind == "stray":
                message, fix = (
                    f"no flag takes the word `{problem.text}`",
                    "remove it, or mend the flag before it",
                )
            elif problem.kind == "value":
                message, fix = f"--{problem.flag} {problem.text}", "mend the value"
            yield Hit(path, message, problem.text, near or None, fix)


@model_rule(
    "SRV006",
    Severity.ERROR,
    Doc(
        title="Tensor parallel does not fit model or node",
        symptom="The engine stops at start: heads are not divisible, or there are fewer GPUs than ranks.",
        cause="Attention heads are split evenly over ranks, and all ranks of a pod are on one node.",
        fix="Use a divisor of the heads that is at most the node's GPUs.",
        source="vllm/config/model.py: verify_with_parallel_config",
        bad="serving: {tensor_parallel: 3}",
        good="serving: {tensor_parallel: 8}",
    ),
)
def tensor_parallel_fits(context: ModelContext) -> Iterable[Hit]:
    """Report a number of ranks that heads or GPUs do not allow; one hit for the first role."""
    deployment = context.deployment
    heads = deployment.model.architecture.attention_heads
    # Where the group's type is not known, the largest node that is.
    largest = max(row.gpu_count for row in context.facts.instances.values())
    for role in deployment.roles:
        asked = role.engine.integer("tensor-parallel-size")
        ranks = role.resources.gpus if asked is None else asked
        most = role.instance.gpu_count if role.instance and role.instance.supports_dpd else largest
        if 1 <= ranks <= most and heads % ranks == 0:
            continue
        allowed = [count for count in range(1, most + 1) if heads % count == 0]
        divides = ranks > 0 and heads % ranks == 0
        reason = f"{most} GPUs of {role.group.instance_type}" if divides else f"{heads} attention heads"
        yield Hit(
            path=flag_path(deployment, role, "tensor-parallel-size", ("serving", "tensor_parallel")),
            message=f"tensor parallel {ranks} does not fit {reason}",
            got=ranks,
            allowed=allowed,
            fix=f"use one of {', '.join(map(str, allowed))}",
        )
        return


@model_rule(
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
def at_sign(context: ModelContext) -> Iterable[Hit]:
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


@model_rule(
    "SRV008",
    Severity.ERROR,
    Doc(
        title="Argument or variable that the package manages",
        symptom="Probes, Service or sizing speak of one value while the engine uses another.",
        cause="The value is rendered from the configuration; a second one overrides it behind its back.",
        fix="Remove it and set the key that the message names.",
        source="docs/configuration.md",
        bad="serving: {args: [--port, '9000']}",
        good="serving: {args: []}",
    ),
)
def managed_values(context: ModelContext) -> Iterable[Hit]:
    """Report managed flags among the user's arguments and managed names among the variables."""
    deployment = context.deployment
    flags = _MANAGED_FLAGS
    if deployment.model.serving.runtime == "operator":
        flags = (*flags, "kv-transfer-config")
    reported: set[Path_] = set()
    for role in deployment.roles:
        for flag in flags:
            index = role.engine.indices.get(flag)
            path = argument_path(deployment, role, index) if index is not None else None
            if path is None or path in reported:
                continue
            reported.add(path)
            yield Hit(path, f"--{flag} is set by the package", f"--{flag}", None, "remove it")
    for name in deployment.model.dpd.environment:
        key = _MANAGED_VARIABLES.get(name.upper())
        if key:
            yield Hit(
                path=("dpd", "environment", name),
                message=f"{name} is set by the package from {key}",
                got=name,
                allowed=key,
                fix=f"remove it and set {key}",
            )
