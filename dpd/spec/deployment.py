"""The one object that every back-end renders: a model as one environment runs it.

Both roles come from here, so prefill and decode cannot drift apart. What HyperPod adds to the engines is
here: groups of nodes, what a pod asks of one, and EFA.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import overload

from dpd.facts import Facts, InstanceFact, VllmFact
from dpd.quantity import GIB
from dpd.spec.engine_args import EngineArgs, parse_engine_args
from dpd.spec.engine_deployment import EngineDeployment, EngineRole, RoleName, planned_roles
from dpd.spec.environment import Environment
from dpd.spec.image import Image, pulled_image, resolve_image, vllm_of
from dpd.spec.instance_group import Group
from dpd.spec.kv_cache import kv_bytes_per_token, kv_dtype_bytes
from dpd.spec.lmcache import chunk_tokens
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment, build_local_deployment
from dpd.spec.model import Model, Role, ScalingRange, Signal
from dpd.spec.pod_resources import PodResources, pod_resources

MODEL_PATH = "/opt/ml/model"
HTTP_PORT = 8000
NAMESPACE = "inference"
"""Kubernetes namespace of every endpoint and its pods."""
ROLE_LABEL = "hyperpod-dpd/role"
"""Node label that the stacks put on each instance group and the manifests select."""
# The prefiller's cap on running sequences hides its load, so the queue is the only backlog seen from
# outside. Short prompts fill a decoder's slots first, long ones its KV cache.
_SIGNALS: Mapping[str, tuple[Signal, ...]] = {"prefill": ("waiting",), "decode": ("running", "kv_cache")}


@dataclass(frozen=True, slots=True)
class RoleDeployment(EngineRole):
    """Hold everything that one pool of pods needs."""

    group_name: str
    group: Group
    instance: InstanceFact | None
    node_selector: Mapping[str, str]
    resources: PodResources
    scaling: ScalingRange

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Return what moves the replicas: the signal asked for, else those that fit the role."""
        return (self.scaling.signal,) if self.scaling.signal else _SIGNALS.get(self.name, ())


@dataclass(frozen=True, slots=True)
class Deployment(EngineDeployment):
    """Join one environment on HyperPod and one model."""

    environment: Environment
    roles: tuple[RoleDeployment, ...]

    def role(self, name: RoleName) -> RoleDeployment:
        """Return one role; raises KeyError where the mode has no such role."""
        return {role.name: role for role in self.roles}[name]


@overload
def build_deployment(environment: Environment, model: Model, facts: Facts) -> Deployment: ...
@overload
def build_deployment(environment: LocalEnvironment, model: Model, facts: Facts) -> LocalDeployment: ...
def build_deployment(
    environment: Environment | LocalEnvironment, model: Model, facts: Facts
) -> Deployment | LocalDeployment:
    """Resolve ``model`` in ``environment``. Pure; wrong values are kept for the rules to report."""
    if isinstance(environment, LocalEnvironment):
        return build_local_deployment(environment, model, facts)
    image = pulled_image(resolve_image(model.serving.image, facts), environment)
    vllm = vllm_of(image, facts)
    roles = _roles(environment, model, facts, image, vllm)
    return Deployment(
        environment=environment,
        model=model,
        image=image,
        vllm=vllm,
        env=_environment_variables(model, pd_buffer_bytes(model, roles[-1], facts)),
        roles=roles,
    )


def pd_buffer_bytes(model: Model, role: RoleDeployment, facts: Facts) -> int:
    """Return `dpd.pd_buffer` rounded down to whole pages of the role's rank.

    LMCache 0.4.3 rounds down itself; releases before LMCache#2694 stop with an assertion instead, so
    every release gets a size that it takes as it is.
    """
    per_token = kv_bytes_per_token(
        model.architecture, role.resources.gpus, kv_dtype_bytes(model.architecture, role.engine)
    )
    page = per_token * chunk_tokens(model.dpd.environment, role.engine, facts)
    return model.dpd.pd_buffer // page * page


def _roles(
    environment: Environment, model: Model, facts: Facts, image: Image, vllm: VllmFact | None
) -> tuple[RoleDeployment, ...]:
    groups = environment.hyperpod.groups
    shared = _shared_args(model, image)
    roles: list[RoleDeployment] = []
    for name, role in planned_roles(model):
        group_name, group = ("prefill", groups.prefill) if name == "prefill" else ("decode", groups.decode)
        args = _role_args(name, model, role)
        instance = facts.instances.get(group.instance_type)
        engine = parse_engine_args((*shared, *args), vllm) if vllm else EngineArgs()
        gpus = _gpus(engine, model)
        roles.append(
            RoleDeployment(
                name=name,
                replicas=role.replicas,
                group_name=group_name,
                group=group,
                instance=instance,
                shared_args=shared,
                args=args,
                engine=engine,
                node_selector={ROLE_LABEL: group_name, **role.node_selector},
                resources=pod_resources(
                    gpus, model, instance, facts, role.resources, with_l1=name != "decode"
                ),
                scaling=_scaling(name, model),
            )
        )
    return tuple(roles)


def _scaling(name: RoleName, model: Model) -> ScalingRange:
    if name == "worker":
        return ScalingRange(min=model.serving.replicas, max=model.serving.replicas)
    return model.autoscaling.prefill if name == "prefill" else model.autoscaling.decode


def _gpus(engine: EngineArgs, model: Model) -> int:
    """Return the GPUs of one pod; a value below 1 is SRV006's to report, and counts as not given."""
    asked = engine.integer("tensor-parallel-size") or 0
    return asked if asked > 0 else model.serving.tensor_parallel


def _shared_args(model: Model, image: Image) -> tuple[str, ...]:
    serving = model.serving
    vllm_serve = image.fact is not None and image.fact.entrypoint == "vllm_serve"
    return (
        *((MODEL_PATH,) if vllm_serve else ("--model", MODEL_PATH)),
        *("--served-model-name", model.name),
        *("--port", str(HTTP_PORT)),
        *("--tensor-parallel-size", str(serving.tensor_parallel)),
        *("--max-model-len", str(serving.max_model_len)),
        *("--gpu-memory-utilization", str(serving.gpu_memory_utilization)),
        *serving.args,
    )


def _role_args(name: RoleName, model: Model, role: Role) -> tuple[str, ...]:
    args: list[str] = ["--max-num-seqs", str(role.max_num_seqs)]
    if name != "worker":
        # LMCache 0.4.x leaks a PD page for each chunk that vLLM's own prefix cache covers on the
        # decoder (LMCache#2933); on the prefiller its L1 cache does the same work.
        args.append("--no-enable-prefix-caching")
        if model.dpd.transport == "nixl":
            args += ["--kv-transfer-config", json.dumps(NIXL_TRANSFER, separators=(",", ":"))]
    return (*args, *role.args)


NIXL_TRANSFER = {
    "kv_connector": "NixlConnector",
    # The connector does not read the role; vLLM's documentation uses kv_both for both sides.
    "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
    # UCX on EFA falls back to TCP without an error (vllm#41814).
    "kv_connector_extra_config": {"backends": ["LIBFABRIC"]},
}


def _environment_variables(model: Model, buffer_bytes: int) -> dict[str, str]:
    dpd = model.dpd
    variables = {
        "HF_HOME": "/tmp/hf_home",  # noqa: S108 - a path inside the worker's container
        # LMCache reports usage to a third party by default.
        "LMCACHE_TRACK_USAGE": "false",
        # Block hashes must agree between processes, or every lookup misses (LMCache#2979).
        "PYTHONHASHSEED": "0",
    }
    if model.serving.mode == "disaggregated":
        variables |= {
            "FI_PROVIDER": "efa",
            "FI_EFA_USE_DEVICE_RDMA": "1",
            # Shared-memory transfer corrupted GPU buffers under load (dynamo#9712).
            "FI_EFA_ENABLE_SHM_TRANSFER": "0",
        }
    if model.serving.mode == "disaggregated" and dpd.transport == "lmcache":
        variables |= {
            "PD_BUFFER_SIZE": str(buffer_bytes),
            "LMCACHE_SAVE_DECODE_CACHE": "False",
            # Configuration from variables alone skips the check that switches this on; without
            # it a prompt shorter than a chunk is never sent (LMCache#2459).
            "LMCACHE_SAVE_UNFULL_CHUNK": "True",
        }
    if dpd.l1_cache.enabled and dpd.transport == "lmcache":
        variables["LMCACHE_MAX_LOCAL_CPU_SIZE"] = f"{dpd.l1_cache.size_per_rank / GIB:.1f}"
    return {**variables, **dpd.environment}
