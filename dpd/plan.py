"""The plan of one environment: what stands where, how memory is used, what it costs, what to ask for.

Plain data; ``plan_text`` draws it and ``to_json`` writes it, with units in every key.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.sizing.capacity import SubnetUse, gpu_subnet_use, groups
from dpd.sizing.cost import Cost, cost
from dpd.sizing.gpu_memory import GpuMemory, gpu_memory
from dpd.sizing.kv_cache import PdBuffer, pd_buffer, prompts_in_flight, transfer_seconds
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.merge import Merged


@dataclass(frozen=True, slots=True)
class QuotaNeed:
    """Name a service quota and the least value that the environment needs."""

    service: str
    name: str
    needed: int
    default: float | None


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Hold the sizes of one model; ``buffer`` is None where LMCache does not move its KV cache."""

    deployment: Deployment
    buffer: PdBuffer | None
    prompts_in_flight: int
    transfer_s: float | None
    memory: dict[str, GpuMemory]
    merged: Merged


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
        loaded, _ = catalog.effective(environment.name, name)
        if loaded.value is not None:
            deployment = build_deployment(environment, loaded.value, facts)
            plans.append(_model_plan(deployment, facts, loaded.merged))
    return Plan(
        environment=environment,
        facts=facts,
        subnet=gpu_subnet_use(environment, facts),
        cost=cost(environment, facts),
        quotas=_quotas(environment, facts),
        models=tuple(plans),
        findings=tuple(findings),
    )


def _model_plan(deployment: Deployment, facts: Facts, merged: Merged) -> ModelPlan:
    model = deployment.model
    buffer = transfer = None
    if deployment.disaggregated:
        decode = deployment.role("decode")
        sized = pd_buffer(model, decode, facts)
        buffer = sized if model.dpd.transport == "lmcache" else None
        if decode.instance is not None and decode.instance.gpu_count:
            rate = decode.instance.network_gbps / decode.instance.gpu_count
            transfer = transfer_seconds(model.workload.input_tokens, sized.bytes_per_token, rate)
    return ModelPlan(
        deployment=deployment,
        buffer=buffer,
        prompts_in_flight=prompts_in_flight(
            model.workload.requests_per_second,
            facts.constant("pd_buffer_residence_s"),
            facts.constant("poisson_quantile"),
        ),
        transfer_s=transfer,
        memory={
            role.name: gpu_memory(model, role, role.instance, facts)
            for role in deployment.roles
            if role.instance is not None and role.instance.gpu_count
        },
        merged=merged,
    )


def _quotas(environment: Environment, facts: Facts) -> tuple[QuotaNeed, ...]:
    """Return the quotas per instance type, the cluster's and the account's, as needed here."""
    counts: dict[str, int] = {}
    for group in groups(environment).values():
        counts[group.instance_type] = counts.get(group.instance_type, 0) + group.count
    total = sum(counts.values())
    needs: list[QuotaNeed] = []
    listed = {row.instance_type for row in facts.quotas.values()}
    for row in facts.quotas.values():
        if row.instance_type is None and row.quota_name.lower().find("number of instances") >= 0:
            needs.append(QuotaNeed(row.service, row.quota_name, total, row.default))
        elif row.instance_type in counts and row.quota_name.endswith("for cluster usage"):
            needs.append(QuotaNeed(row.service, row.quota_name, counts[row.instance_type], row.default))
    for instance_type in sorted(set(counts) - listed):
        needs.append(
            QuotaNeed("sagemaker", f"{instance_type} for cluster usage", counts[instance_type], None)
        )
    return tuple(sorted(needs, key=lambda need: (need.name.startswith("ml.") is False, need.name)))


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
    deployment = plan.deployment
    model = deployment.model
    data: dict[str, object] = {
        "name": model.name,
        "mode": model.serving.mode,
        "runtime": model.serving.runtime,
        "transport": model.dpd.transport if deployment.disaggregated else None,
        "image": deployment.image.reference,
        "roles": [
            {
                "name": role.name,
                "replicas": role.replicas,
                "instance_type": role.group.instance_type,
                "gpus_per_replica": role.resources.gpus,
                "efa_devices_per_replica": role.resources.efa_devices,
                "memory_request_bytes": role.resources.memory_request_bytes,
                "gpu_memory": _memory_json(plan.memory[role.name]) if role.name in plan.memory else None,
            }
            for role in deployment.roles
        ],
        "pd_buffer": plan.buffer
        and {
            "buffer_bytes_per_rank": plan.buffer.buffer_bytes,
            "kv_bytes_per_token_per_rank": plan.buffer.bytes_per_token,
            "page_bytes": plan.buffer.page_bytes,
            "page_tokens": plan.buffer.page_tokens,
            "tokens": plan.buffer.tokens,
            "prompts_of_workload": plan.buffer.prompts(model.workload.input_tokens),
            "prompts_in_flight": plan.prompts_in_flight,
        },
        "kv_transfer_at_line_rate_ms": None if plan.transfer_s is None else round(plan.transfer_s * 1e3, 3),
    }
    if explain:
        data["origins"] = explain_values(plan)
    return data


def _memory_json(memory: GpuMemory) -> dict[str, object]:
    return {
        "total_bytes": memory.total_bytes,
        "gpu_memory_utilization": memory.utilization,
        "largest_gpu_memory_utilization": memory.largest_utilization,
        "weight_bytes": memory.weight_bytes,
        "activation_bytes": memory.activation_bytes,
        "kv_room_bytes": memory.kv_room_bytes,
        "kv_room_tokens": memory.kv_room_tokens,
        "pd_buffer_bytes": memory.pd_buffer_bytes,
        "reserve_bytes": memory.reserve_bytes,
        "free_bytes": memory.free_bytes,
    }


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
