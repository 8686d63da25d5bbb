"""`dpd deploy`, `dpd status` and `dpd destroy`: the embedded system on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpd.cli_common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    FORMAT,
    Function,
    facts_of,
    load,
    print_json,
    refuse,
    report_text,
)
from dpd.finding import Finding, has_errors
from dpd.local.home import find_home
from dpd.local.state import Engine
from dpd.spec.catalog import Catalog
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment, build_local_deployment

if TYPE_CHECKING:
    # `dpd check` runs without psutil.
    from dpd.local.system import LocalSystem

_ENVIRONMENT = click.option(
    "--env", "environment", default="local", show_default=True, metavar="NAME", help="Environment."
)
_CONFIG_DIR = click.option(
    "--config-dir",
    type=click.Path(path_type=Path),
    default=Path("config"),
    show_default=True,
    help="Folder with environments/, models/ and facts/.",
)


class Refused(click.ClickException):
    """End a command with one line and exit code 2."""

    exit_code = EXIT_USAGE


def target(function: Function) -> Function:
    """Add --env, default `local`, and --config-dir."""
    return _ENVIRONMENT(_CONFIG_DIR(function))


@click.command()
@target
@click.option("--model", help="Model, where the environment lists several.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a key of the model.")
@click.option(
    "--engine",
    type=click.Choice(["vllm", "simulated"]),
    help="Real engines, or stand-ins that compute nothing. Default: `local.engine` of the environment.",
)
@click.option("--allow-cuda-torch", is_flag=True, help="Let pip take torch's CUDA build, several GB more.")
def deploy(
    environment: str,
    config_dir: Path,
    model: str | None,
    sets: tuple[str, ...],
    engine: Engine | None,
    allow_cuda_torch: bool,
) -> None:
    """Start prefill, decode and router on this machine, or bring them in line with the files."""
    from dpd.local.bring_up import Busy, DeployFailed
    from dpd.local.deploy import deploy as deploy_local
    from dpd.local.models import ModelFailed
    from dpd.local.ports import NoFreePort

    catalog, _, findings = load(config_dir, [environment], [model] if model else [], sets)
    only_here(catalog, environment, "deploy")
    if has_errors(findings):
        refuse(findings)
    report_text(findings)
    facts = facts_of(catalog, findings)
    deployment = chosen_deployment(catalog, environment, model)
    engine = engine or deployment.environment.local.engine
    home = find_home()
    try:
        done = deploy_local(deployment, engine, facts, home, _say, allow_cuda_torch=allow_cuda_torch)
    except DeployFailed as error:
        refuse(error.findings)
    except (Busy, ModelFailed, NoFreePort) as error:
        raise Refused(str(error)) from None
    _report_deployed(environment, done.system, changed=done.changed)


@click.command()
@target
@FORMAT
def status(environment: str, config_dir: Path, output: str) -> None:
    """Show processes, ports, memory, restarts, health, and which paths requests took."""
    from dpd.local.status import lines, not_running
    from dpd.local.status import status as read_status
    from dpd.local.system import LocalSystem, NotRunning

    only_here(load(config_dir, [environment], [], ())[0], environment, "status")
    shown, findings = None, list[Finding]()
    try:
        shown, findings = read_status(LocalSystem.load(environment))
    except NotRunning:
        findings = [not_running(environment)]
    if output == "json":
        print_json(
            {
                "status": shown.to_json() if shown else None,
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        for line in lines(shown) if shown else ():
            click.echo(line)
        report_text(findings)
    sys.exit(EXIT_FINDINGS if findings else 0)


@click.command()
@target
def destroy(environment: str, config_dir: Path) -> None:
    """End every process of the environment; engines, models and logs stay."""
    from dpd.local.bring_up import Busy, only_one
    from dpd.local.system import LocalSystem

    only_here(load(config_dir, [environment], [], ())[0], environment, "destroy")
    folder = find_home().environment(environment)
    try:
        with only_one(folder):
            ended = LocalSystem(folder).destroy()
    except Busy as error:
        raise Refused(str(error)) from None
    click.echo(f"{environment}: ended {', '.join(ended)}" if ended else f"{environment}: nothing was running")


def only_here(catalog: Catalog, environment: str, command: str) -> None:
    """End a command with 2 where the environment is not on this machine."""
    value = catalog.environments[environment].value
    if value is not None and not isinstance(value, LocalEnvironment):
        verb = "cdk destroy" if command == "destroy" else "cdk deploy"
        instead = "" if command in {"verify", "drill"} else f": use `{verb} -c env={environment} --all`"
        raise Refused(
            f"`dpd {command}` of this version works on `backend: local` alone; environment `{environment}` "
            f"is on HyperPod{instead}"
        )


def chosen_deployment(catalog: Catalog, environment: str, model: str | None) -> LocalDeployment:
    """Return what a command is about; ends it where the files do not say."""
    value = catalog.environments[environment].value
    if not isinstance(value, LocalEnvironment):
        refuse(list(catalog.findings))
    names: Sequence[str] = [model] if model else value.models
    if len(names) != 1:
        raise click.UsageError(
            f"environment `{environment}` lists {len(names)} models, and one at a time runs on this machine; "
            f"choose with --model: {', '.join(names) or 'none is listed'}"
        )
    loaded = catalog.effective(environment, names[0])[0].value
    if loaded is None:
        refuse(list(catalog.findings))
    return build_local_deployment(value, loaded, facts_of(catalog, list(catalog.findings)))


def _report_deployed(environment: str, system: LocalSystem, *, changed: bool) -> None:
    desired = system.desired
    roles = [process.role for process in system.processes]
    counts = ", ".join(f"{roles.count(role)} {role}" for role in dict.fromkeys(roles))
    state = "is up" if changed else "ran already, nothing to change"
    click.echo(f"{environment} {state}: {desired.model} ({counts}) at {system.router_url}")
    if desired.engine == "simulated":
        click.echo("SIMULATED engines: answers and times mean nothing")
    click.echo(f"  dpd status --env {environment}\n  dpd destroy --env {environment}")


_say: Callable[[str], None] = click.echo
