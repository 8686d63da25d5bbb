"""What moves the replicas of each role: its own queue for prefill, its own fill for decode."""

from __future__ import annotations

from dpd.spec.deployment import Deployment, RoleDeployment
from k8s.pd_spec import AutoScaling, PdAutoScalingSpec, PrometheusTrigger

# The prefiller's cap on running sequences hides its load, so the queue is the only backlog seen
# from outside; two waiting prompts a pod are a queue that does not drain by itself.
_WAITING_PER_POD = 2.0
# Below these the pool still absorbs a burst while a node takes its minutes to load the weights.
_RUNNING_SHARE = 0.7
_KV_CACHE_SHARE = 0.8
_COOLDOWN_S = 300
# A prefiller drains in seconds, a decoder only when its longest stream ends.
_SCALE_DOWN_AFTER_S = {"prefill": 300, "decode": 900}


def pd_auto_scaling(deployment: Deployment) -> PdAutoScalingSpec | None:
    """Return the scaling of the roles whose maximum exceeds their minimum, None where no role moves.

    The two roles never share a signal: CloudWatch counts invocations for both pools alike, so only
    Prometheus queries that name the role's pods are used.
    """
    prefill, decode = deployment.role("prefill"), deployment.role("decode")
    spec = PdAutoScalingSpec(
        prefill_auto_scaling=_scaling(prefill, _prefill_triggers(deployment)),
        decoding_auto_scaling=_scaling(decode, _decode_triggers(deployment, decode)),
    )
    return spec if spec.prefill_auto_scaling or spec.decoding_auto_scaling else None


def _scaling(role: RoleDeployment, triggers: tuple[PrometheusTrigger, ...]) -> AutoScaling | None:
    if role.scaling.max <= role.scaling.min:
        return None
    return AutoScaling(
        min_replica_count=role.scaling.min,
        max_replica_count=role.scaling.max,
        cooldown_period=_COOLDOWN_S,
        scale_down_stabilization_time=_SCALE_DOWN_AFTER_S[role.name],
        prometheus_trigger_list=triggers,
    )


def _prefill_triggers(deployment: Deployment) -> tuple[PrometheusTrigger, ...]:
    waiting = f"sum({_of_role(deployment, 'prefill', 'vllm:num_requests_waiting')})"
    return (
        PrometheusTrigger(
            name="prefill-waiting",
            query=waiting,
            target_value=_WAITING_PER_POD,
            metric_type="Average",
            server_address=deployment.environment.observability.prometheus_url,
        ),
    )


def _decode_triggers(deployment: Deployment, decode: RoleDeployment) -> tuple[PrometheusTrigger, ...]:
    """Return both limits of a decoder: short prompts fill its slots first, long ones its KV cache."""
    slots = decode.engine.integer("max-num-seqs") or deployment.model.dpd.decode.max_num_seqs
    address = deployment.environment.observability.prometheus_url
    return (
        PrometheusTrigger(
            name="decode-running",
            query=f"sum({_of_role(deployment, 'decode', 'vllm:num_requests_running')})",
            target_value=round(slots * _RUNNING_SHARE, 1),
            metric_type="Average",
            server_address=address,
        ),
        PrometheusTrigger(
            name="decode-kv-cache",
            query=f"avg({_of_role(deployment, 'decode', 'vllm:kv_cache_usage_perc')})",
            target_value=_KV_CACHE_SHARE,
            # A share is the same whatever the number of pods, so it must not be divided by them.
            metric_type="Value",
            server_address=address,
        ),
    )


def _of_role(deployment: Deployment, role: str, metric: str) -> str:
    """Select one role's series by pod name, since the engine's own labels are equal on both roles.

    The operator names pods `prefill-<name>-...` and `decode-<name>-...` (page
    sagemaker-hyperpod-model-deployment-dpd). Its collector writes `pod_name`, a plain Kubernetes
    scrape `pod`; the pages do not say which the engine's series carry, so either is accepted.
    """
    pods = f"{role}-{deployment.model.kubernetes_name}-.*"
    return f'{metric}{{pod_name=~"{pods}"}} or {metric}{{pod=~"{pods}"}}'
