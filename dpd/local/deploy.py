"""`dpd deploy --env local`: check the machine, install and generate what lacks, and bring it up."""

from __future__ import annotations

from pathlib import Path

from dpd.facts import Facts
from dpd.local import engines, host, models
from dpd.local.bring_up import Deployed, Say, bring_up, only_one, stop_at
from dpd.local.home import Home
from dpd.local.ports import is_free
from dpd.local.process_specs import desired_processes
from dpd.local.state import Desired, Engine, read
from dpd.local.system import LocalSystem
from dpd.local.warm_up import warm_up
from dpd.project import ROOT, NoCheckout
from dpd.spec.local_deployment import LocalDeployment

REQUIREMENTS = ROOT / "requirements-engines.txt"


def deploy(
    deployment: LocalDeployment, engine: Engine, facts: Facts, home: Home, say: Say, *, allow_cuda_torch: bool
) -> Deployed:
    """Make what runs equal to ``deployment`` and return when it answers.

    Raises DeployFailed with findings LOC101 to LOC106, Busy, or NoCheckout.
    """
    folder = home.environment(deployment.environment.name)
    with only_one(folder):
        last = read(folder.desired, Desired)
        model = None
        if engine == "vllm":
            if not REQUIREMENTS.exists():
                raise NoCheckout(f"engines are installed from a checkout of hyperpod-dpd, and {ROOT} is none")
            model = models.model_folder(deployment, home, REQUIREMENTS)
        desired = desired_processes(deployment, model, home, _kept_ports(last, LocalSystem(folder)))
        if model is not None:
            _check_host(deployment, desired, last, facts, LocalSystem(folder))
            _provide(deployment, model, home, say, allow_cuda_torch=allow_cuda_torch)
        return bring_up(folder, desired, say, lambda: warm_up(deployment, LocalSystem(folder)))


def _kept_ports(last: Desired | None, system: LocalSystem) -> dict[str, int]:
    """Return the ports that stay; while nothing ran, another program may have taken some."""
    ports = last.ports if last else {}
    return {use: port for use, port in ports.items() if system.runs or is_free(port)}


def _check_host(
    deployment: LocalDeployment, desired: Desired, last: Desired | None, facts: Facts, system: LocalSystem
) -> None:
    same_engine = last is not None and last.engine == desired.engine
    running = {process.name for process in system.processes if process.leash and same_engine}
    to_start = sum(spec.role != "router" and spec.name not in running for spec in desired.processes)
    stop_at(host.platform_findings() + host.memory_findings(deployment, facts, to_start=to_start))


def _provide(
    deployment: LocalDeployment, model: Path, home: Home, say: Say, *, allow_cuda_torch: bool
) -> None:
    if not engines.are_installed(home, REQUIREMENTS):
        say(f"engines: installing {REQUIREMENTS.name} into {home.engines}, about 3 GB on disk")
        stop_at(engines.install(home, REQUIREMENTS, say, allow_cuda_torch=allow_cuda_torch))
    if deployment.model.weights.path is None and not model.exists():
        models.generate(deployment, model, home)
        say(f"model: generated {model}")
