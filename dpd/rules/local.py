"""LOC: what engines on this machine can do, and what only they can."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.quantity import GIB, format_bytes
from dpd.rules.arguments import flag_path
from dpd.rules.registry import Doc, EngineContext, Hit, engine_rule
from dpd.spec.kv_cache import kv_bytes_per_token, kv_dtype_bytes
from dpd.spec.local_deployment import LocalDeployment

_LOCAL_SOURCES = ("local", "generated")
_CLUSTER_SOURCES = ("s3", "fsx", "huggingface")


@engine_rule(
    "LOC002",
    Severity.ERROR,
    Doc(
        title="LMCache transport on this machine",
        symptom="The engine stops at start with `Unsupported device platform`, or recomputes every prompt.",
        cause="LMCache's connector moves KV cache of CUDA, XPU and HPU devices; it has no path for a CPU.",
        fix="Use `dpd.transport: nixl`, in the model or in `overrides` of the local environment.",
        source="lmcache 0.4.3: get_vllm_torch_dev",
        bad="dpd: {transport: lmcache}  # backend local",
        good="overrides: {tiny-llama: {dpd: {transport: nixl}}}",
    ),
)
def lmcache_on_cpu(context: EngineContext) -> Iterable[Hit]:
    """Report a disaggregated model on this machine whose KV cache LMCache should move."""
    deployment = context.deployment
    transport = deployment.model.dpd.transport
    if deployment.runtime == "local" and deployment.disaggregated and transport == "lmcache":
        yield Hit(
            path=("dpd", "transport"),
            message="LMCache cannot move the KV cache of an engine on the CPU",
            got=transport,
            allowed="nixl",
            fix="set it to nixl, here or in the environment's overrides",
        )


@engine_rule(
    "LOC003",
    Severity.ERROR,
    Doc(
        title="Weights that this back-end cannot read",
        symptom="Pods or processes stop at start: the model's folder is empty.",
        cause="Generated weights and folders of this disk exist on one machine; buckets and file systems are "
        "mounted in pods only.",
        fix="Use a source of the back-end; `overrides` change it for one environment.",
        source="docs/configuration.md",
        bad="weights: {source: generated}  # backend hyperpod",
        good="weights: {source: s3, prefix: Llama-3.3-70B-Instruct/}",
    ),
)
def weights_reachable(context: EngineContext) -> Iterable[Hit]:
    """Report a source of weights that only the other back-end has."""
    deployment = context.deployment
    source = deployment.model.weights.source
    local = deployment.runtime == "local"
    allowed = _LOCAL_SOURCES if local else _CLUSTER_SOURCES
    if source not in allowed:
        where = "engines on this machine cannot" if local else "pods on HyperPod cannot"
        yield Hit(
            path=("weights", "source"),
            message=f"{where} read weights from `{source}`",
            got=source,
            allowed=list(allowed),
            fix=f"use one of {', '.join(allowed)}",
        )


@engine_rule(
    "LOC004",
    Severity.ERROR,
    Doc(
        title="Engine that does not run on this machine",
        symptom="Nothing would start: a container image is for GPUs and Kubernetes.",
        cause="On this machine engines are Python packages; `serving.image` names none of the known ones.",
        fix="Name a key of config/facts/engines.yaml, in the model or in `overrides`.",
        source="config/facts/engines.yaml",
        bad="serving: {image: hyperpod-dlc}  # backend local",
        good="serving: {image: vllm-cpu}",
    ),
)
def engine_known(context: EngineContext) -> Iterable[Hit]:
    """Report a model on this machine whose image is no engine of the facts."""
    image, engines = context.deployment.model.serving.image, list(context.facts.engines)
    if context.deployment.runtime == "local" and image not in engines:
        yield Hit(
            path=("serving", "image"),
            message=f"`{image}` is no engine that runs on this machine",
            got=image,
            allowed=engines,
            fix=f"use {' or '.join(engines)}",
        )


@engine_rule(
    "LOC005",
    Severity.ERROR,
    Doc(
        title="Tensor parallel on this machine",
        symptom="The engine stops at start, or requests that wait for KV cache stand for many seconds.",
        cause="Each engine is one process on the CPU; ranks would need more of them.",
        fix="Use tensor parallel 1, in the model or in `overrides`.",
        source="docs/configuration.md",
        bad="serving: {tensor_parallel: 2}  # backend local",
        good="serving: {tensor_parallel: 1}",
    ),
)
def one_rank(context: EngineContext) -> Iterable[Hit]:
    """Report more than one rank, from the key or an argument; one hit for the first role."""
    deployment = context.deployment
    for role in deployment.roles if deployment.runtime == "local" else ():
        asked = role.engine.integer("tensor-parallel-size")
        ranks = deployment.model.serving.tensor_parallel if asked is None else asked
        if ranks != 1:
            yield Hit(
                path=flag_path(deployment, role, "tensor-parallel-size", ("serving", "tensor_parallel")),
                message=f"an engine on this machine has one rank, got tensor parallel {ranks}",
                got=ranks,
                allowed=1,
                fix="set it to 1",
            )
            return


@engine_rule(
    "LOC006",
    Severity.ERROR,
    Doc(
        title="KV cache of this machine holds no longest prompt",
        symptom="The engine stops at start: its KV cache is smaller than one request of `max_model_len`.",
        cause="vLLM refuses a context that its KV cache cannot hold even once.",
        fix="Raise `local.kv_cache`, or lower `serving.max_model_len`.",
        source="vllm 0.32.0 vllm/v1/core/kv_cache_utils.py",
        bad="local: {kv_cache: 1GiB}  # and a model of 128 KiB a token with max_model_len 16384",
        good="local: {kv_cache: 2GiB}",
    ),
)
def kv_cache_holds_prompt(context: EngineContext) -> Iterable[Hit]:
    """Compare the KV cache of one engine with one prompt of the context length."""
    deployment = context.deployment
    if not isinstance(deployment, LocalDeployment):
        return
    architecture, has = deployment.model.architecture, deployment.environment.local.kv_cache
    role = deployment.roles[-1]
    per_token = kv_bytes_per_token(architecture, 1, kv_dtype_bytes(architecture, role.engine))
    needed = per_token * deployment.max_model_len
    if needed > has:
        least = -(-needed // GIB) * GIB
        yield Hit(
            path=("local", "kv_cache"),
            message=(
                f"one prompt of {deployment.max_model_len} tokens needs {format_bytes(needed)}, an engine "
                f"has {format_bytes(has)}"
            ),
            got=format_bytes(has),
            allowed=f"{format_bytes(least)} or more",
            fix=f"set it to {format_bytes(least)}, or max_model_len to {has // per_token} or less",
            owner="environment",
        )
