"""The plan of an environment on this machine: processes, their memory, and what moves between them."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.plan_origins import explain_values
from dpd.sizing.local import LocalMemory, engine_count, local_memory
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment
from dpd.spec.merge import Merged


@dataclass(frozen=True, slots=True)
class LocalModelPlan:
    """Hold the sizes of one model on this machine."""

    deployment: LocalDeployment
    merged: Merged
    memory: LocalMemory

    @property
    def engines(self) -> int:
        """Return the number of engines."""
        return engine_count(self.deployment)

    @property
    def memory_bytes(self) -> int:
        """Return what all engines of the model take."""
        return self.engines * self.memory.engine_bytes

    @property
    def prompt_disaggregated(self) -> bool:
        """Tell whether the workload's prompt goes through a prefiller."""
        model = self.deployment.model
        return (
            self.deployment.disaggregated
            and model.workload.input_tokens >= model.dpd.routing.threshold_tokens
        )

    @property
    def prompt_transfer_bytes(self) -> int:
        """Return the KV cache that moves for one prompt of the workload; 0 where it does not move."""
        tokens = self.deployment.model.workload.input_tokens
        return tokens * self.memory.kv_bytes_per_token if self.prompt_disaggregated else 0


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """Hold everything that `dpd plan` says about an environment on this machine."""

    environment: LocalEnvironment
    models: tuple[LocalModelPlan, ...]
    findings: tuple[Finding, ...]

    @property
    def memory_bytes(self) -> int:
        """Return what all engines take."""
        return sum(model.memory_bytes for model in self.models)


def plan_local_model(deployment: LocalDeployment, facts: Facts, merged: Merged) -> LocalModelPlan:
    """Size one model on this machine."""
    return LocalModelPlan(deployment, merged, local_memory(deployment, facts))


def local_json(plan: LocalPlan, *, explain: bool) -> dict[str, object]:
    """Return the plan as plain data whose keys carry their units."""
    local = plan.environment.local
    return {
        "environment": plan.environment.name,
        "backend": plan.environment.backend,
        "engine": local.engine,
        "router_port": local.router_port,
        "memory_bytes": plan.memory_bytes,
        "memory_reserve_bytes": local.memory_reserve,
        "models": [_model_json(model, explain=explain) for model in plan.models],
        "findings": [finding.to_json() for finding in plan.findings],
    }


def _model_json(plan: LocalModelPlan, *, explain: bool) -> dict[str, object]:
    deployment, model, memory = plan.deployment, plan.deployment.model, plan.memory
    origins: dict[str, object] = {"origins": explain_values(model, plan.merged)} if explain else {}
    return {
        "name": model.name,
        "mode": model.serving.mode,
        "transport": model.dpd.transport if deployment.disaggregated else None,
        "image": deployment.image.reference,
        "weights": model.weights.source,
        "parameters": model.architecture.parameters,
        "weight_bytes": memory.weight_bytes,
        "roles": [
            {
                "name": role.name,
                "replicas": role.replicas,
                "max_num_seqs": role.engine.integer("max-num-seqs"),
                "engine_bytes": memory.engine_bytes,
            }
            for role in deployment.roles
        ],
        "kv_cache_bytes": memory.kv_cache_bytes,
        "kv_cache_tokens": memory.kv_tokens,
        "kv_bytes_per_token": memory.kv_bytes_per_token,
        "threshold_tokens": model.dpd.routing.threshold_tokens if deployment.disaggregated else None,
        "workload_input_tokens": model.workload.input_tokens,
        "prompt_transfer_bytes": plan.prompt_transfer_bytes,
        **origins,
    }
