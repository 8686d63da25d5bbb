"""SRV: the engine's arguments and variables, read as the engine will read them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from dpd.finding import Severity
from dpd.rules.arguments import argument_path, flag_path
from dpd.rules.registry import Doc, EngineContext, Hit, ModelContext, engine_rule, model_rule
from dpd.spec.engine_deployment import EngineDeployment
from dpd.spec.lmcache import lmcache_settings
from dpd.yaml_file import Path_

# Flags and settings that the manifests write; a second value would contradict Service, probes or sizing.
_MANAGED_FLAGS = ("model", "served-model-name", "port", "host")
_MANAGED_VARIABLES = {
    "PD_BUFFER_SIZE": "dpd.pd_buffer",
    "LMCACHE_PD_BUFFER_SIZE": "dpd.pd_buffer",
    "LMCACHE_MAX_LOCAL_CPU_SIZE": "dpd.l1_cache.size_per_rank",
}
_MANAGED_LOCAL_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "local.kv_cache of the environment"}


@engine_rule(
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
def known_arguments(context: EngineContext) -> Iterable[Hit]:
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


@engine_rule(
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
def managed_values(context: EngineContext) -> Iterable[Hit]:
    """Report managed flags among the user's arguments and managed names among the variables."""
    deployment = context.deployment
    flags = _MANAGED_FLAGS
    if deployment.runtime != "self_managed":
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
        key = _managed_variables(deployment).get(name.upper())
        if key:
            yield _managed(("dpd", "environment", name), name, key)
    for role in deployment.roles if deployment.runtime == "self_managed" else ():
        path = flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport"))
        for name in lmcache_settings({}, role.engine) if path not in reported else ():
            key = _MANAGED_VARIABLES.get(f"LMCACHE_{name.upper()}")
            if key:
                reported.add(path)
                yield _managed(path, f"lmcache.{name}", key)


def _managed_variables(deployment: EngineDeployment) -> Mapping[str, str]:
    return _MANAGED_LOCAL_VARIABLES if deployment.runtime == "local" else _MANAGED_VARIABLES


def _managed(path: Path_, name: str, key: str) -> Hit:
    return Hit(path, f"{name} is set by the package from {key}", name, key, f"remove it and set {key}")


@engine_rule(
    "SRV009",
    Severity.ERROR,
    Doc(
        title="Arguments from a file",
        symptom="The engine runs with values that no rule, no plan and no reviewer has seen.",
        cause="--config reads further arguments from a file inside the image, which nothing here can read.",
        fix="Write the file's values as arguments.",
        source="vllm/utils/argparse_utils.py of the image's release",
        bad="serving: {args: [--config, /opt/vllm.yaml]}",
        good="serving: {args: [--enforce-eager]}",
    ),
)
def arguments_from_file(context: EngineContext) -> Iterable[Hit]:
    """Report --config among the user's arguments, once for each place."""
    deployment = context.deployment
    reported: set[Path_] = set()
    for role in deployment.roles:
        path = flag_path(deployment, role, "config", ())
        if path and path not in reported:
            reported.add(path)
            yield Hit(
                path=path,
                message="--config hides arguments in a file that only the container can read",
                got=role.engine.values.get("config"),
                fix="write its values as arguments",
            )
