"""What runs for one deployment: workers of each role, and the router in front of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from dpd.local.home import EnvironmentFolder, Home
from dpd.local.ports import choose_ports
from dpd.local.state import Desired, ProcessSpec
from dpd.spec.engine_deployment import EngineRole
from dpd.spec.local_deployment import LocalDeployment

HOST = "127.0.0.1"
_ROUTER = "router"
_ROUTER_START_S = 30.0


def desired_processes(
    deployment: LocalDeployment, model: Path | None, home: Home, kept_ports: Mapping[str, int]
) -> Desired:
    """Return everything that shall run; without ``model``, the folder of the weights, it is simulated."""
    environment = deployment.environment
    folder = home.environment(environment.name)
    names = [name for role in deployment.roles for name in worker_names(role)]
    uses = [_ROUTER, *names, *map(_side_channel, names)]
    router_port = environment.local.router_port
    ports = choose_ports(uses, kept_ports, {_ROUTER: router_port} if router_port else {})
    workers = [
        _worker(deployment, role, name, ports, model, home)
        for role in deployment.roles
        for name in worker_names(role)
    ]
    return Desired(
        environment=environment.name,
        model=deployment.model.name,
        engine="simulated" if model is None else "vllm",
        ports=ports,
        processes=(*workers, _router(deployment, workers, ports[_ROUTER], folder)),
    )


def worker_names(role: EngineRole) -> list[str]:
    """Return the names of the role's processes: `prefill-0`, `prefill-1`."""
    return [f"{role.name}-{number}" for number in range(role.replicas)]


def _side_channel(name: str) -> str:
    return f"{name} nixl"


def _worker(
    deployment: LocalDeployment,
    role: EngineRole,
    name: str,
    ports: Mapping[str, int],
    model: Path | None,
    home: Home,
) -> ProcessSpec:
    port, side_channel = str(ports[name]), str(ports[_side_channel(name)])
    address = ("--host", HOST, "--port", port)
    if model is None:
        command = (
            sys.executable,
            *_simulator(deployment, role),
            *address,
            "--side-channel-port",
            side_channel,
        )
        environment: dict[str, str] = {}
    else:
        # -P: the script's folder does not come before the standard library.
        python = (str(home.engines / "bin" / "python"), "-P", str(Path(__file__).with_name("vllm_worker.py")))
        # The router and the supervisor ask every two seconds.
        quiet = ("--disable-access-log-for-endpoints", "/health,/metrics")
        command = (*python, "--model", str(model), *address, *quiet, *role.shared_args, *role.args)
        environment = {**deployment.env, "VLLM_NIXL_SIDE_CHANNEL_PORT": side_channel}
    return ProcessSpec(
        name=name,
        role=role.name,
        command=command,
        environment=environment,
        url=f"http://{HOST}:{port}",
        ready_timeout_s=deployment.environment.local.ready_timeout_s,
    )


def _simulator(deployment: LocalDeployment, role: EngineRole) -> tuple[str, ...]:
    return (
        *("-m", "dpd.simulator", "--role", role.name),
        *("--transport", deployment.model.dpd.transport, "--model", deployment.model.name),
        *("--max-model-len", str(deployment.max_model_len)),
        *("--max-num-seqs", str(role.engine.integer("max-num-seqs"))),
        *("--kv-load-failure-policy", "recompute"),
        # About what an engine on a CPU does, so that a drill meets hand-overs under way.
        *("--prefill-tokens-per-s", "10000"),
    )


def _router(
    deployment: LocalDeployment, workers: list[ProcessSpec], port: int, folder: EnvironmentFolder
) -> ProcessSpec:
    dpd = deployment.model.dpd
    config = {
        "listen": {"host": HOST, "port": port},
        "transport": dpd.transport,
        "routing": {
            "threshold_tokens": dpd.routing.threshold_tokens,
            "strategy": dpd.routing.strategy,
        },
        "workers": {
            "source": "static",
            "prefill": [worker.url for worker in workers if worker.role == "prefill"],
            "decode": [worker.url for worker in workers if worker.role != "prefill"],
        },
        "limits": {"prefill_concurrency": dpd.prefill.max_num_seqs},
    }
    file = str(folder.path / "router.yaml")
    return ProcessSpec(
        name=_ROUTER,
        role=_ROUTER,
        command=(sys.executable, "-m", "dpd.router", "--config", file),
        files={file: yaml.safe_dump(config, sort_keys=False)},
        url=f"http://{HOST}:{port}",
        ready_timeout_s=_ROUTER_START_S,
    )
