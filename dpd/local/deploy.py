"""`dpd deploy --env local`: check the machine, install and generate what lacks, and bring it up."""

from __future__ import annotations

from pathlib import Path

from dpd.facts import Facts
from dpd.local import engines, host, models
from dpd.local.bring_up import Deployed, Say, bring_up, only_one, stop_at
from dpd.local.home import Home
from dpd.local.ports import is_free
from dpd.local.process_specs import desired_processes, worker_names
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
            _check_host(deployment, last, facts, LocalSystem(folder))
            _provide(deployment, model, home, say, allow_cuda_torch=allow_cuda_torch)
        # After what takes minutes, in which another program could take a port that was free.
        desired = desired_processes(deployment, model, home, _kept_ports(last, LocalSystem(folder)))
        return bring_up(folder, desired, say, lambda: warm_up(deployment, LocalSystem(folder)))


def _kept_ports(last: Desired | None, system: LocalSystem) -> dict[str, int]:
    """Return the ports that stay; while nothing ran, another program may have taken some."""
    ports = last.ports if last else {}
    return {use: port for use, port in ports.items() if system.runs or is_free(port)}


def _check_host(deployment: LocalDeployment, last: Desired | None, facts: Facts, system: LocalSystem) -> None:
    """Stop where the machine, or its free memory, does not hold the engines that do not run yet."""
    same_engine = last is not None and last.engine == "vllm"
    running = {process.name for process in system.processes if process.leash and same_engine}
    wanted = {name for role in deployment.roles for name in worker_names(role)}
    to_start = len(wanted - running)
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
