"""What moves the replicas of each role: by default its own queue for prefill, its own fill for decode."""

from __future__ import annotations

from typing import Literal

from dpd.spec.deployment import Deployment, RoleDeployment
from dpd.spec.model import Signal
from k8s.pd_spec import AutoScaling, PdAutoScalingSpec, PrometheusTrigger

# Two waiting prompts a pod are a queue that does not drain by itself.
_WAITING_PER_POD = 2.0
# Below these the pool still absorbs a burst while a node takes its minutes to load the weights.
_RUNNING_SHARE = 0.7
_KV_CACHE_SHARE = 0.8
# Aggregate, metric, target and how the operator compares it; `running` is a share of the slots. The fill of
# the cache is the same whatever the number of pods, so it must not be divided by them.
_SIGNALS: dict[Signal, tuple[str, str, float, Literal["Average", "Value"]]] = {
    "waiting": ("sum", "vllm:num_requests_waiting", _WAITING_PER_POD, "Average"),
    "running": ("sum", "vllm:num_requests_running", _RUNNING_SHARE, "Average"),
    "kv_cache": ("avg", "vllm:kv_cache_usage_perc", _KV_CACHE_SHARE, "Value"),
}
_COOLDOWN_S = 300
# A prefiller drains in seconds, a decoder only when its longest stream ends.
_SCALE_DOWN_AFTER_S = {"prefill": 300, "decode": 900}


def pd_auto_scaling(deployment: Deployment) -> PdAutoScalingSpec | None:
    """Return the scaling of the roles whose maximum exceeds their minimum, None where no role moves.

    CloudWatch counts invocations for both pools alike, so only Prometheus queries that name the role's
    pods are used.
    """
    prefill, decode = deployment.role("prefill"), deployment.role("decode")
    spec = PdAutoScalingSpec(
        prefill_auto_scaling=_scaling(deployment, prefill),
        decoding_auto_scaling=_scaling(deployment, decode),
    )
    return spec if spec.prefill_auto_scaling or spec.decoding_auto_scaling else None


def _scaling(deployment: Deployment, role: RoleDeployment) -> AutoScaling | None:
    if role.scaling.max <= role.scaling.min:
        return None
    return AutoScaling(
        min_replica_count=role.scaling.min,
        max_replica_count=role.scaling.max,
        cooldown_period=_COOLDOWN_S,
        scale_down_stabilization_time=_SCALE_DOWN_AFTER_S[role.name],
        prometheus_trigger_list=tuple(_trigger(deployment, role, signal) for signal in role.signals),
    )


def _trigger(deployment: Deployment, role: RoleDeployment, signal: Signal) -> PrometheusTrigger:
    slots = role.engine.integer("max-num-seqs") or getattr(deployment.model.dpd, role.name).max_num_seqs
    aggregate, metric, target, kind = _SIGNALS[signal]
    return PrometheusTrigger(
        name=f"{role.name}-{signal.replace('_', '-')}",
        query=f"{aggregate}({_of_role(deployment, role.name, metric)})",
        target_value=round(slots * target, 1) if signal == "running" else target,
        metric_type=kind,
        server_address=deployment.environment.observability.prometheus_url,
    )


def _of_role(deployment: Deployment, role: str, metric: str) -> str:
    """Select one role's series by pod name, since the engine's own labels are equal on both roles.

    The operator names pods `prefill-<name>-...` and `decode-<name>-...` (page
    sagemaker-hyperpod-model-deployment-dpd). Its collector writes `pod_name`, a plain Kubernetes
    scrape `pod`; the pages do not say which the engine's series carry, so either is accepted.
    """
    pods = f"{role}-{deployment.model.kubernetes_name}-.*"
    return f'{metric}{{pod_name=~"{pods}"}} or {metric}{{pod=~"{pods}"}}'
