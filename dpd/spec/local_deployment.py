"""A model as processes on this machine: vLLM on the CPU, KV cache over NIXL and TCP on the loopback.

The deployment holds what is the same for every process of a role. Whoever starts a process adds what is its
own: the model's folder, host and port, and the port of NIXL's side channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.spec.engine_args import EngineArgs, parse_engine_args
from dpd.spec.engine_deployment import EngineDeployment, EngineRole, RoleName, Runtime, planned_roles
from dpd.spec.image import Image, vllm_of
from dpd.spec.local import LocalEnvironment
from dpd.spec.model import Model, Role


@dataclass(frozen=True, slots=True)
class LocalDeployment(EngineDeployment):
    """Join the environment of this machine and one model."""

    environment: LocalEnvironment

    @property
    def runtime(self) -> Runtime:
        """Return what starts the engines: this package, whatever `serving.runtime` says of a cluster."""
        return "local"


def build_local_deployment(environment: LocalEnvironment, model: Model, facts: Facts) -> LocalDeployment:
    """Resolve ``model`` on this machine. Pure; wrong values are kept for the rules to report."""
    fact = facts.engines.get(model.serving.image)
    image = Image(fact.reference if fact else model.serving.image, fact)
    vllm = vllm_of(image, facts)
    shared = _shared_args(model)
    roles: list[EngineRole] = []
    for name, role in planned_roles(model):
        args = _role_args(name, model, role)
        engine = parse_engine_args((*shared, *args), vllm) if vllm else EngineArgs()
        roles.append(EngineRole(name, role.replicas, shared, args, engine))
    return LocalDeployment(
        environment=environment,
        model=model,
        image=image,
        vllm=vllm,
        env={**_variables(environment.local.kv_cache), **model.dpd.environment},
        roles=tuple(roles),
    )


def _shared_args(model: Model) -> tuple[str, ...]:
    return (
        *("--served-model-name", model.name),
        *("--max-model-len", str(model.serving.max_model_len)),
        *("--dtype", model.architecture.dtype),
        # Compiling would take longer than everything that a test asks.
        "--enforce-eager",
        # Worker processes behind shared memory left requests that wait for KV cache standing for up to 31 s
        # (measured with vLLM 0.32.0 on two cores); in one process none stood.
        *("--distributed-executor-backend", "uni"),
        *model.serving.args,
    )


def _role_args(name: RoleName, model: Model, role: Role) -> tuple[str, ...]:
    args: list[str] = ["--max-num-seqs", str(role.max_num_seqs)]
    if name != "worker":
        # Every prompt token is then computed or transferred, and the counters say which.
        args.append("--no-enable-prefix-caching")
        if model.dpd.transport == "nixl":
            args += ["--kv-transfer-config", json.dumps(_transfer(name), separators=(",", ":"))]
    return (*args, *role.args)


def _transfer(name: RoleName) -> dict[str, str]:
    """Return the transfer configuration of one role, as measured with vLLM 0.32.0 and NIXL 1.5.1 on CPU."""
    transfer = {"kv_connector": "NixlConnector", "kv_buffer_device": "cpu"}
    if name == "prefill":
        return {**transfer, "kv_role": "kv_producer"}
    # The default answers 500 where the prefiller dies before its KV cache is fetched.
    return {**transfer, "kv_role": "kv_consumer", "kv_load_failure_policy": "recompute"}


def _variables(kv_cache_bytes: int) -> Mapping[str, str]:
    return {
        "VLLM_TARGET_DEVICE": "cpu",
        # Otherwise vLLM forces worker processes on the CPU, whatever the executor argument says.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": str(kv_cache_bytes // GIB),
        # Several engines share few cores: one thread each, bound to none.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        # Weights are on this machine; nothing may be fetched.
        "HF_HUB_OFFLINE": "1",
        # vLLM reports usage to a third party by default.
        "VLLM_NO_USAGE_STATS": "1",
        "UCX_TLS": "tcp,self",
        "UCX_NET_DEVICES": "lo",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "PYTHONHASHSEED": "0",
    }
