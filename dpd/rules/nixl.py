"""SRV: NixlConnector, which pulls KV cache from the prefiller on its own."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.arguments import flag_path
from dpd.rules.registry import Doc, EngineContext, Hit, ModelContext, engine_rule, model_rule
from dpd.spec.engine_deployment import EngineDeployment
from dpd.spec.lmcache import whole_number

_ABORT_TIMEOUT = "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"


def _moves_with_nixl(deployment: EngineDeployment) -> bool:
    return deployment.disaggregated and deployment.model.dpd.transport == "nixl"


@model_rule(
    "SRV010",
    Severity.WARNING,
    Doc(
        title="Tensor parallel differs between roles on NIXL",
        symptom="Crash at the first disaggregated request, healthy before (P-64).",
        cause="The connector reshapes KV cache between unequal ranks, and several vLLM releases do it wrong.",
        fix="Use equal tensor parallel, or prove this vLLM with a long prompt before relying on it.",
        source="vllm-project/vllm#43523, #50765",
        bad="dpd: {decode: {args: ['-tp', '4']}}  # transport nixl, tensor_parallel 8",
        good="dpd: {decode: {args: []}}",
    ),
)
def unequal_ranks(context: ModelContext) -> Iterable[Hit]:
    """Report unequal ranks with the vLLM release on which they depend; SRV006 reports impossible ones."""
    deployment = context.deployment
    if not _moves_with_nixl(deployment):
        return
    prefill, decode = (deployment.role(name).resources.gpus for name in ("prefill", "decode"))
    if prefill == decode:
        return
    wanted = deployment.model.serving.tensor_parallel
    odd = deployment.role("decode" if decode != wanted else "prefill")
    fact = deployment.image.fact
    yield Hit(
        path=flag_path(deployment, odd, "tensor-parallel-size", ("serving", "tensor_parallel")),
        message=(
            f"tensor parallel is {prefill} for prefill and {decode} for decode; nobody has proved that on "
            f"EFA with vLLM {fact.vllm_version if fact else '(unknown)'}"
        ),
        got=odd.resources.gpus,
        allowed=wanted,
        fix="use equal tensor parallel, or try a long prompt on this image first",
    )


@engine_rule(
    "SRV011",
    Severity.WARNING,
    Doc(
        title="Hybrid model without a fixed block size",
        symptom="`handshake_failed`, or answers of 3 % accuracy while /health says 200 (P-65).",
        cause="vLLM derives the block size of models with sliding windows from other settings of each role.",
        fix="Write --block-size in `serving.args`, and compare answers with a colocated replica.",
        source="vllm-project/vllm#42895, #41037",
        bad="architecture: {sliding_window: 4096, sliding_window_layers: 40}",
        good="architecture: {sliding_window: 4096, sliding_window_layers: 40}\n"
        "serving: {args: [--block-size, '64']}",
    ),
)
def hybrid_block_size(context: EngineContext) -> Iterable[Hit]:
    """Report a disaggregated model with windowed layers whose roles do not name their block size."""
    deployment = context.deployment
    architecture = deployment.model.architecture
    if not deployment.disaggregated or not architecture.sliding_window_layers or deployment.vllm is None:
        return
    if any("block-size" not in role.engine.values for role in deployment.roles):
        yield Hit(
            path=("serving", "args"),
            message=(
                f"{architecture.sliding_window_layers} of {architecture.layers} layers slide a window; "
                "vLLM chooses the block size of each role by itself"
            ),
            allowed="--block-size in serving.args",
            fix="add --block-size to serving.args, such as 64",
        )


@engine_rule(
    "SRV012",
    Severity.ERROR,
    Doc(
        title="KV cache is given up before the router gives up",
        symptom="Wrong tokens under load: the prefiller frees blocks that decode still reads (P-68).",
        cause="The prefiller drops the KV cache of a request that nobody fetched within this time (P-67).",
        fix="Remove the variable, or set it to the router's request timeout or more.",
        source="vllm-project/vllm#46283, #21570",
        bad='dpd: {environment: {VLLM_NIXL_ABORT_REQUEST_TIMEOUT: "30"}}  # transport nixl',
        good='dpd: {environment: {VLLM_NIXL_ABORT_REQUEST_TIMEOUT: "480"}}',
    ),
)
def abort_timeout(context: EngineContext) -> Iterable[Hit]:
    """Compare the time that KV cache is kept with the time that a router waits, in seconds."""
    deployment = context.deployment
    least = int(context.facts.constant("router_request_timeout_s"))
    if not _moves_with_nixl(deployment):
        return
    for name, value in deployment.model.dpd.environment.items():
        seconds = whole_number(value)
        if name.upper() == _ABORT_TIMEOUT and (seconds is None or seconds < least):
            yield Hit(
                path=("dpd", "environment", name),
                message=f"{name} is `{value}`, and routers wait {least} s for a prefill",
                got=value,
                allowed=f"{least} or more",
                fix="remove it, which means 480 s",
            )
