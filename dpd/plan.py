"""The plan of one environment: what stands where, how memory is used, what it costs, what to ask for.

Plain data; ``plan_text`` draws it and ``to_json`` writes it, with units in every key.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.model_plan import ModelPlan, model_json, plan_model
from dpd.sizing.capacity import SubnetUse, gpu_subnet_use, groups
from dpd.sizing.cost import Cost, cost
from dpd.sizing.quotas import QuotaNeed, quota_needs
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment
from dpd.spec.merge import Merged


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold everything that `dpd plan` says about one environment."""

    environment: Environment
    facts: Facts
    subnet: SubnetUse | None
    cost: Cost
    quotas: tuple[QuotaNeed, ...]
    models: tuple[ModelPlan, ...]
    findings: tuple[Finding, ...]


def build_plan(
    catalog: Catalog, facts: Facts, environment: Environment, models: list[str], findings: list[Finding]
) -> Plan:
    """Size and price one environment; a model whose file is wrong is left out, its findings say why."""
    plans: list[ModelPlan] = []
    for name in models:
        # CFG004 reports a name that no file describes.
        if name not in catalog.models:
            continue
        loaded, _ = catalog.effective(environment.name, name)
        if loaded.value is not None:
            deployment = build_deployment(environment, loaded.value, facts)
            plans.append(plan_model(deployment, facts, loaded.merged))
    return Plan(
        environment=environment,
        facts=facts,
        subnet=gpu_subnet_use(environment, facts),
        cost=cost(environment, facts),
        quotas=quota_needs(environment, facts),
        models=tuple(plans),
        findings=tuple(findings),
    )


def to_json(plan: Plan, *, explain: bool) -> dict[str, object]:
    """Return the plan as plain data whose keys carry their units."""
    environment = plan.environment
    return {
        "environment": environment.name,
        "region": environment.region,
        "gpu_zone_id": environment.gpu_zone_id,
        "kubernetes_version": environment.kubernetes.version,
        "operator_addon_version": environment.operator.addon_version,
        "groups": [
            {"name": name, "instance_type": group.instance_type, "count": group.count}
            for name, group in groups(environment).items()
        ],
        "gpu_subnet": plan.subnet
        and {"addresses_needed": plan.subnet.needed, "addresses_available": plan.subnet.available},
        "cost": {
            "usd_per_hour": round(plan.cost.usd_per_hour, 4),
            "usd_per_month": round(plan.cost.usd_per_month, 2),
            "complete": plan.cost.complete,
            "lines": [
                {
                    "name": line.name,
                    "count": line.count,
                    "usd_per_hour": None if line.usd_per_hour is None else round(line.usd_per_hour, 4),
                    "note": line.note,
                }
                for line in plan.cost.lines
            ],
        },
        "quotas": [
            {"service": need.service, "name": need.name, "needed": need.needed, "default": need.default}
            for need in plan.quotas
        ],
        "models": [_model_json(model, explain=explain) for model in plan.models],
        "findings": [finding.to_json() for finding in plan.findings],
    }


def _model_json(plan: ModelPlan, *, explain: bool) -> dict[str, object]:
    origins: dict[str, object] = {"origins": explain_values(plan)} if explain else {}
    return model_json(plan) | origins


def explain_values(plan: ModelPlan) -> list[dict[str, str]]:
    """Return every value of the effective model with the place that set it."""
    rows: list[dict[str, str]] = []
    _explain(plan.deployment.model.model_dump(mode="json"), (), plan.merged, rows)
    return rows


def _explain(value: object, path: tuple[str | int, ...], merged: Merged, rows: list[dict[str, str]]) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            _explain(item, (*path, str(key)), merged, rows)  # pyright: ignore[reportUnknownArgumentType]
        return
    origin = merged.origins[path].text() if merged.is_set(path) else "default"
    rows.append({"key": ".".join(map(str, path)), "value": str(value), "origin": origin})  # pyright: ignore[reportUnknownArgumentType]
