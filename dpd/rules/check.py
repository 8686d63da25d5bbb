"""Apply every rule to the chosen environments and models, and place what they find in the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpd.facts import Facts
from dpd.finding import Finding, has_errors

# Importing an area registers its rules.
from dpd.rules import (  # noqa: F401
    capacity,  # pyright: ignore[reportUnusedImport]
    closed_network,  # pyright: ignore[reportUnusedImport]
    cluster,  # pyright: ignore[reportUnusedImport]
    compatibility,  # pyright: ignore[reportUnusedImport]
    cost_control,  # pyright: ignore[reportUnusedImport]
    devices,  # pyright: ignore[reportUnusedImport]
    existing,  # pyright: ignore[reportUnusedImport]
    host,  # pyright: ignore[reportUnusedImport]
    images,  # pyright: ignore[reportUnusedImport]
    instance_groups,  # pyright: ignore[reportUnusedImport]
    kv_cache,  # pyright: ignore[reportUnusedImport]
    lmcache,  # pyright: ignore[reportUnusedImport]
    local,  # pyright: ignore[reportUnusedImport]
    network,  # pyright: ignore[reportUnusedImport]
    nixl,  # pyright: ignore[reportUnusedImport]
    node_labels,  # pyright: ignore[reportUnusedImport]
    operator,  # pyright: ignore[reportUnusedImport]
    operator_addon,  # pyright: ignore[reportUnusedImport]
    roles,  # pyright: ignore[reportUnusedImport]
    routing,  # pyright: ignore[reportUnusedImport]
    scaling,  # pyright: ignore[reportUnusedImport]
    serving,  # pyright: ignore[reportUnusedImport]
    system_zone,  # pyright: ignore[reportUnusedImport]
    tls,  # pyright: ignore[reportUnusedImport]
    transport,  # pyright: ignore[reportUnusedImport]
    unrendered,  # pyright: ignore[reportUnusedImport]
    validation,  # pyright: ignore[reportUnusedImport]
    verification,  # pyright: ignore[reportUnusedImport]
    vpc_ranges,  # pyright: ignore[reportUnusedImport]
    workload,  # pyright: ignore[reportUnusedImport]
    zones,  # pyright: ignore[reportUnusedImport]
)
from dpd.rules.config import accepted_ids
from dpd.rules.registry import EngineContext, EnvironmentContext, Hit, ModelContext, Rule, rules
from dpd.spec.backend import AnyEnvironment
from dpd.spec.catalog import Catalog, Loaded
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.local_deployment import LocalDeployment
from dpd.spec.model import Model

# What traffic gains is a question about a model that can run, so it is asked last.
_ESTIMATES = {"WRK001", "WRK002"}


def check(
    catalog: Catalog, environments: Sequence[str] | None = None, models: Sequence[str] | None = None
) -> list[Finding]:
    """Return every finding of the files and rules, each once, in a stable order.

    ``environments`` and ``models`` narrow the rules; what is wrong in a file is always reported.
    ``models`` may name a model that an environment does not list, to try it there.
    """
    findings = list(catalog.findings)
    if catalog.facts is None:
        return findings
    for name in environments if environments is not None else list(catalog.environments):
        findings += _check_environment(catalog, catalog.facts, name, models)
    # An error in a model's file would otherwise come once per environment. One environment's accepted
    # finding never hides the same error of another: they differ in severity.
    return list(dict.fromkeys(findings))


def _check_environment(
    catalog: Catalog, facts: Facts, name: str, models: Sequence[str] | None
) -> list[Finding]:
    loaded = catalog.environments[name]
    if loaded.value is None:
        return []
    environment = loaded.value
    findings = [_place(rules()["CFG007"], hit, loaded, None) for hit in accepted_ids(environment)]
    for rule in rules().values():
        if rule.environment_check is not None and isinstance(environment, Environment):
            hits = rule.environment_check(EnvironmentContext(environment, facts))
            findings += [_accept(_place(rule, hit, loaded, None), environment) for hit in hits]
    for model in models if models is not None else environment.models:
        if model in catalog.models:
            findings += _check_model(catalog, facts, loaded, environment, model)
    return findings


def _check_model(
    catalog: Catalog, facts: Facts, loaded: Loaded[AnyEnvironment], environment: AnyEnvironment, name: str
) -> list[Finding]:
    model, findings = catalog.effective(loaded.name, name)
    if model.value is None:
        return findings
    deployment = build_deployment(environment, model.value, facts)
    for rule in sorted(rules().values(), key=lambda rule: rule.id in _ESTIMATES):
        if rule.id in _ESTIMATES and has_errors(findings):
            continue
        hits = _hits(rule, deployment, facts)
        findings += [_accept(_place(rule, hit, loaded, model), environment) for hit in hits]
    return findings


def _hits(rule: Rule, deployment: Deployment | LocalDeployment, facts: Facts) -> Iterable[Hit]:
    """Apply a rule about one model, where it is one and its back-end is the deployment's."""
    if rule.engine_check is not None:
        return rule.engine_check(EngineContext(deployment, facts))
    if rule.model_check is not None and isinstance(deployment, Deployment):
        return rule.model_check(ModelContext(deployment, facts))
    return ()


def _place(rule: Rule, hit: Hit, environment: Loaded[AnyEnvironment], model: Loaded[Model] | None) -> Finding:
    loaded = model if hit.owner == "model" and model is not None else environment
    origin = loaded.merged.origin(hit.path)
    return Finding(
        id=rule.id,
        severity=rule.severity,
        path=origin.path,
        message=hit.message,
        got=hit.got,
        allowed=hit.allowed,
        fix=hit.fix,
        source=rule.doc.source,
        file=origin.file,
        line=origin.line,
    )


def _accept(finding: Finding, environment: AnyEnvironment) -> Finding:
    accepted = environment.accept.get(finding.id)
    # What is wrong with the files themselves is not a matter of opinion (CFG007).
    if accepted is None or finding.id.startswith("CFG"):
        return finding
    return replace(finding, severity=accepted.severity, accepted=accepted.reason)
