"""LMC: LMCache's settings, wherever they are written, against what disaggregation survives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpd.facts import LmcacheSettingFact
from dpd.finding import Severity
from dpd.rules.arguments import flag_path
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.spec.lmcache import LmcacheSetting, lmcache_settings, whole_number
from dpd.yaml_file import Path_

_CONFIG = "lmcache 0.4.3 v1/config.py"


def _settings(context: ModelContext) -> Iterator[tuple[Path_, str, LmcacheSetting]]:
    """Yield each setting of the LMCache transport once, with the place where the user wrote it.

    A transfer configuration is the user's on the self-managed runtime only; elsewhere SRV008 speaks.
    """
    deployment = context.deployment
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache":
        return
    seen: set[tuple[Path_, str]] = set()
    for role in deployment.roles:
        for key, setting in lmcache_settings(deployment.model.dpd.environment, role.engine).items():
            path: Path_ = ("dpd", "environment", setting.variable or "")
            if setting.variable is None:
                if deployment.model.serving.runtime == "operator":
                    continue
                path = flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport"))
            if (path, key) not in seen:
                seen.add((path, key))
                yield path, key, setting


def _as_read(value: str, row: LmcacheSettingFact) -> str:
    """Return a value as LMCache reads it: every text but `true` and `1` switches off."""
    text = value.strip().lower()
    if row.kind == "bool":
        return "true" if text in {"true", "1"} else "false"
    return text


@model_rule(
    "LMC001",
    Severity.ERROR,
    Doc(
        title="LMCache setting that breaks disaggregation",
        symptom="The worker is Ready and recomputes every prompt, hangs, or answers nonsense (P-48, P-54).",
        cause="LMCache swallows its errors, and vLLM goes on in `degraded mode (recompute)`.",
        fix="Remove the setting, or do what the message says.",
        source=f"config/facts/lmcache_settings.yaml; {_CONFIG}",
        bad='dpd: {environment: {LMCACHE_USE_LAYERWISE: "True"}}',
        good='dpd: {environment: {LMCACHE_USE_LAYERWISE: "False"}}',
    ),
)
def settings_that_break(context: ModelContext) -> Iterable[Hit]:
    """Report each setting with a value that its row does not allow."""
    for path, key, setting in _settings(context):
        row = context.facts.lmcache_settings.get(key)
        if row is None or not row.read or _as_read(setting.value, row) in row.allowed:
            continue
        yield Hit(
            path=path,
            message=f"LMCache setting {key} is `{setting.value}`: {row.why}",
            got=setting.value,
            allowed=list(row.allowed) or "not set",
            fix=row.instead,
        )


@model_rule(
    "LMC002",
    Severity.ERROR,
    Doc(
        title="LMCache setting of an earlier release",
        symptom="The setting has no effect; LMCache logs `Unknown configuration key` and goes on.",
        cause="The names with nixl_ and enable_xpyd became pd_ names, and the old ones are not mapped.",
        fix="Remove it, or do what the message says.",
        source=_CONFIG,
        bad="dpd: {environment: {LMCACHE_NIXL_ROLE: sender}}",
        good="dpd: {environment: {}}",
    ),
)
def settings_not_read(context: ModelContext) -> Iterable[Hit]:
    """Report each setting under a name that no supported release reads."""
    for path, key, setting in _settings(context):
        row = context.facts.lmcache_settings.get(key)
        if row is not None and not row.read:
            yield Hit(
                path=path,
                message=f"LMCache does not read {key}: {row.why}",
                got=setting.value,
                fix=row.instead,
            )


@model_rule(
    "LMC003",
    Severity.ERROR,
    Doc(
        title="Chunk size that is no whole number",
        symptom="LMCache does not start, vLLM goes on without it, and every prompt is computed twice.",
        cause="`chunk_size` is the number of tokens in one page; sizing and threshold count in pages too.",
        fix="Remove the setting, which means 256, or write a whole number.",
        source=_CONFIG,
        bad='dpd: {environment: {LMCACHE_CHUNK_SIZE: "256 tokens"}}',
        good='dpd: {environment: {LMCACHE_CHUNK_SIZE: "256"}}',
    ),
)
def chunk_size(context: ModelContext) -> Iterable[Hit]:
    """Report a chunk size that is not a whole number above 0; the sizing takes any other as it is."""
    for path, key, setting in _settings(context):
        if key == "chunk_size" and not whole_number(setting.value):
            yield Hit(
                path=path,
                message=f"LMCache's chunk size `{setting.value}` is no number of tokens",
                got=setting.value,
                allowed="a whole number above 0",
                fix="remove it, or write a whole number such as 256",
            )


@model_rule(
    "LMC005",
    Severity.ERROR,
    Doc(
        title="Hybrid KV cache manager forced on with LMCache",
        symptom="The engine stops at start, because the connector does not support the hybrid manager.",
        cause="vLLM switches the manager off where LMCache moves KV cache; the flag undoes that.",
        fix="Remove --no-disable-hybrid-kv-cache-manager.",
        source="vllm 0.19.0 vllm/config/vllm.py (SupportsHMA)",
        bad="serving: {args: [--no-disable-hybrid-kv-cache-manager]}",
        good="serving: {args: []}",
    ),
)
def hybrid_manager(context: ModelContext) -> Iterable[Hit]:
    """Report the flag on the LMCache transport; one hit for the first role that has it."""
    deployment = context.deployment
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache":
        return
    flag = "disable-hybrid-kv-cache-manager"
    for role in deployment.roles:
        if role.engine.values.get(flag) is False:
            yield Hit(
                path=flag_path(deployment, role, flag, ("serving", "args")),
                message="LMCache's connector does not work with vLLM's hybrid KV cache manager",
                got=f"--no-{flag}",
                fix="remove the argument",
            )
            return
