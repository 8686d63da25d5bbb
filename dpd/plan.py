"""The plan of one environment: what stands where, how memory is used, what it costs, what to ask for.

Plain data; ``plan_text`` draws it and ``to_json`` writes it, with units in every key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.model_plan import ModelPlan, model_json, plan_model
from dpd.plan_local import LocalPlan, local_json, plan_local_model
from dpd.plan_origins import explain_values
from dpd.sizing.capacity import SubnetUse, gpu_subnet_use, groups
from dpd.sizing.cost import Cost, cost
from dpd.sizing.quotas import QuotaNeed, quota_needs
from dpd.spec.backend import AnyEnvironment
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment
from dpd.spec.local import LocalEnvironment


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold everything that `dpd plan` says about one environment on HyperPod."""

    environment: Environment
    facts: Facts
    subnet: SubnetUse | None
    cost: Cost
    quotas: tuple[QuotaNeed, ...]
    models: tuple[ModelPlan, ...]
    findings: tuple[Finding, ...]


@overload
def build_plan(
    catalog: Catalog, facts: Facts, environment: Environment, models: list[str], findings: list[Finding]
) -> Plan: ...
@overload
def build_plan(
    catalog: Catalog, facts: Facts, environment: LocalEnvironment, models: list[str], findings: list[Finding]
) -> LocalPlan: ...
def build_plan(
    catalog: Catalog, facts: Facts, environment: AnyEnvironment, models: list[str], findings: list[Finding]
) -> Plan | LocalPlan:
    """Size one environment, and price it on HyperPod.

    A model whose file is wrong is left out; its findings say why.
    """
    # CFG004 reports a name that no file describes.
    loaded = [catalog.effective(environment.name, name)[0] for name in models if name in catalog.models]
    chosen = [(row.value, row.merged) for row in loaded if row.value is not None]
    if isinstance(environment, LocalEnvironment):
        local = [
            plan_local_model(build_deployment(environment, model, facts), facts, merged)
            for model, merged in chosen
        ]
        return LocalPlan(environment, tuple(local), tuple(findings))
    plans = [
        plan_model(build_deployment(environment, model, facts), facts, merged) for model, merged in chosen
    ]
    return Plan(
        environment=environment,
        facts=facts,
        subnet=gpu_subnet_use(environment, facts),
        cost=cost(environment, facts),
        quotas=quota_needs(environment, facts),
        models=tuple(plans),
        findings=tuple(findings),
    )


def to_json(plan: Plan | LocalPlan, *, explain: bool) -> dict[str, object]:
    """Return the plan as plain data whose keys carry their units."""
    if isinstance(plan, LocalPlan):
        return local_json(plan, explain=explain)
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
    origins: dict[str, object] = (
        {"origins": explain_values(plan.deployment.model, plan.merged)} if explain else {}
    )
    return model_json(plan) | origins
