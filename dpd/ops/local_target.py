"""The embedded system as a target of verify and drills."""

from __future__ import annotations

import psutil

from dpd.local.system import LocalProcess, LocalSystem
from dpd.ops.verify.target import Target, TargetWorker
from dpd.spec.local_deployment import LocalDeployment


def local_target(deployment: LocalDeployment, system: LocalSystem) -> Target:
    """Join what is configured with what runs; raises NotRunning where nothing was ever deployed."""
    return Target(
        environment=deployment.environment.name,
        model=deployment.model.name,
        engine=system.desired.engine,
        transport=deployment.model.dpd.transport,
        router_url=system.router_url,
        threshold_tokens=deployment.model.dpd.routing.threshold_tokens,
        max_model_len=deployment.max_model_len,
        replicas={role.name: role.replicas for role in deployment.roles},
        workers=tuple(_worker(process) for process in system.processes if process.role != "router"),
    )


def _worker(process: LocalProcess) -> TargetWorker:
    """Read arguments and variables from the process itself, which may differ from what was asked for."""
    assert process.role != "router"  # noqa: S101 - filtered above
    worker = TargetWorker(process.name, process.role, process.url)
    try:
        command = psutil.Process(process.pid) if process.pid else None
        if command is None:
            return worker
        return TargetWorker(
            process.name, process.role, process.url, tuple(command.cmdline()), command.environ()
        )
    except psutil.NoSuchProcess:
        return worker
