"""Render the pods of a deployment: the shared worker, and what each role adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from dpd.quantity import GIB, KIB, MIB
from dpd.spec.deployment import HTTP_PORT, MODEL_PATH, Deployment, RoleDeployment
from dpd.spec.pod_resources import PodResources
from k8s.pd_spec import RoleSpec
from k8s.worker import (
    EnvironmentVariable,
    HttpGet,
    InvocationPort,
    Probe,
    Probes,
    ResourceRequirements,
    VolumeMount,
    Worker,
)

HEALTH_PATH = "/health"
# A 70B model took 5 to 10 minutes from S3 (page sagemaker-hyperpod-model-deployment-ts-dpd); larger
# ones need several times that, and a probe that gives up starts the load again from nothing.
STARTUP_LIMIT_S = 60 * 60
_STARTUP_PERIOD_S = 30


def worker(deployment: Deployment) -> Worker:
    """Return the container that both roles share.

    Disaggregated, its arguments are the shared ones, after which the operator appends each role's
    (CRD, pdSpec.prefillSpec.args); its resources are demanded by the CRD and overridden by the
    roles'. Colocated, it is the only role and carries everything.
    """
    decode = deployment.role("decode" if deployment.disaggregated else "worker")
    own_args = () if deployment.disaggregated else decode.args
    return Worker(
        image=deployment.image.reference,
        args=(*decode.shared_args, *own_args),
        environment_variables=_variables(deployment.env),
        model_invocation_port=InvocationPort(container_port=HTTP_PORT, name="http"),
        model_volume_mount=VolumeMount(name="model-weights", mount_path=MODEL_PATH),
        resources=_resources(decode.resources),
        probes=_probes(),
    )


def role_spec(role: RoleDeployment) -> RoleSpec:
    """Return what one role adds to the worker."""
    return RoleSpec(
        replicas=role.replicas,
        args=role.args,
        # Documented nowhere for roles beyond the CRD's text; without it a pod may land on the nodes
        # of the other role, whose GPUs are then missing there.
        node_selector=dict(sorted(role.node_selector.items())),
        resources=_resources(role.resources),
    )


def _variables(env: Mapping[str, str]) -> tuple[EnvironmentVariable, ...]:
    """Sort by name: the list cannot be changed later, so its order must not depend on the source."""
    return tuple(EnvironmentVariable(name=name, value=value) for name, value in sorted(env.items()))


def _resources(pod: PodResources) -> ResourceRequirements:
    """Return requests and limits of one pod.

    The documented example names GPUs alone. Whether the operator adds EFA devices is not stated,
    and without them KV cache travels over TCP with no error, so they are asked for here. Cores have
    no limit, because throttling the engine's scheduler stalls every stream; memory has one.
    """
    devices: dict[str, int | str] = {"nvidia.com/gpu": pod.gpus}
    if pod.efa_devices:
        devices["vpc.amazonaws.com/efa"] = pod.efa_devices
    return ResourceRequirements(
        requests={"cpu": pod.cpu, "memory": _memory(pod.memory_request_bytes), **devices},
        limits={"memory": _memory(pod.memory_limit_bytes), **devices},
    )


def _memory(count: int) -> str:
    """Return ``count`` bytes in the largest Kubernetes unit that loses nothing."""
    for unit, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def _probes() -> Probes:
    """Return probes on the engine's own health path, which costs a prefiller no request.

    They say that the engine lives, not that KV cache moves: LMCache falls back to recomputing with
    /health still 200. Sending a completion instead would kill an LMCache 0.4.3 prefiller (#2145).
    """
    ask = HttpGet(path=HEALTH_PATH, port=HTTP_PORT)
    return Probes(
        startup_probe=Probe(
            http_get=ask,
            period_seconds=_STARTUP_PERIOD_S,
            timeout_seconds=10,
            failure_threshold=STARTUP_LIMIT_S // _STARTUP_PERIOD_S,
        ),
        readiness_probe=Probe(http_get=ask, period_seconds=10, timeout_seconds=5, failure_threshold=3),
        # A restart costs the whole load again, so two minutes of silence are forgiven.
        liveness_probe=Probe(http_get=ask, period_seconds=30, timeout_seconds=10, failure_threshold=4),
    )
