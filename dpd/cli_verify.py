"""`dpd verify` and `dpd drill`: the proof that disaggregation works, also when things break."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpd.cli_common import EXIT_FINDINGS, FORMAT, load, print_json, refuse, report_text
from dpd.cli_local import chosen_deployment, only_here, target
from dpd.finding import Finding, has_errors
from dpd.spec.local_deployment import LocalDeployment

if TYPE_CHECKING:
    from dpd.local.system import LocalSystem
    from dpd.ops.drill.drills import Drill
    from dpd.ops.drill.run import Drilled

_MODEL = click.option("--model", help="Model, where the environment lists several.")
_SET = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a key of the model, as at the deploy."
)


@click.command()
@target
@_MODEL
@_SET
@FORMAT
def verify(environment: str, config_dir: Path, model: str | None, sets: tuple[str, ...], output: str) -> None:
    """Prove that the KV cache moves from prefill to decode and that answers are right; exit 1 where not."""
    from dpd.ops.local_target import local_target
    from dpd.ops.verify.report_text import report_lines
    from dpd.ops.verify.verify import verify as verify_target

    deployment, system = _running("verify", environment, config_dir, model, sets)
    report = asyncio.run(verify_target(local_target(deployment, system)))
    if output == "json":
        print_json(report.to_json())
    else:
        for line in report_lines(report):
            click.echo(line)
        report_text(report.findings)
        if not has_errors(report.findings):
            click.echo(f"  dpd drill --env {environment}   # break it on purpose, and see what clients get")
    sys.exit(EXIT_FINDINGS if has_errors(report.findings) else 0)


@click.command()
@target
@_MODEL
@_SET
@FORMAT
@click.option("--only", "only", multiple=True, metavar="NAME", help="Drill; may be repeated. Default: all.")
def drill(
    environment: str,
    config_dir: Path,
    model: str | None,
    sets: tuple[str, ...],
    output: str,
    only: tuple[str, ...],
) -> None:
    """Kill, stop and restart processes under load; exit 1 where a client got a wrong answer."""
    from dpd.ops.drill.drills import DRILLS
    from dpd.ops.drill.table import table_lines

    unknown = [name for name in only if name not in {drill.name for drill in DRILLS}]
    if unknown:
        known = ", ".join(drill.name for drill in DRILLS)
        raise click.UsageError(f"unknown drill `{unknown[0]}`. Known: {known}")
    deployment, system = _running("drill", environment, config_dir, model, sets)
    chosen = [drill for drill in DRILLS if not only or drill.name in only]
    say = click.echo if output == "text" else _say_nothing
    results, findings = asyncio.run(_drill(deployment, system, chosen, say))
    if output == "json":
        print_json(
            {
                "environment": environment,
                "engine": system.desired.engine,
                "drills": [result.to_json() for result in results],
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        for line in table_lines(results) if results else ():
            click.echo(line)
        report_text(findings)
    sys.exit(EXIT_FINDINGS if has_errors(findings) else 0)


def _say_nothing(_: str) -> None:
    """Keep progress out of JSON."""


async def _drill(
    deployment: LocalDeployment, system: LocalSystem, drills: Sequence[Drill], say: Callable[[str], None]
) -> tuple[list[Drilled], list[Finding]]:
    """Run the drills on a system that verifies; return how each went, and what is wrong."""
    from dpd.ops.drill.load import known_answers
    from dpd.ops.drill.run import run_drill
    from dpd.ops.local_target import local_target
    from dpd.ops.verify.probe import Probe
    from dpd.ops.verify.verify import verify as verify_target

    report = await verify_target(local_target(deployment, system))
    if has_errors(report.findings):
        return [], report.findings
    async with Probe(report.target) as probe:
        known = await known_answers(probe)
    results: list[Drilled] = []
    for number, drill in enumerate(drills, 1):
        say(f"{number} of {len(drills)}: {drill.does}")
        results.append(await run_drill(drill, system, lambda: local_target(deployment, system), known))
    return results, [finding for result in results for finding in result.findings]


def _running(
    command: str, environment: str, config_dir: Path, model: str | None, sets: tuple[str, ...]
) -> tuple[LocalDeployment, LocalSystem]:
    """Return what is configured and what runs; ends the command where either is missing."""
    from dpd.local.status import not_running
    from dpd.local.system import LocalSystem, NotRunning

    catalog, _, findings = load(config_dir, [environment], [model] if model else [], sets)
    only_here(catalog, environment, command)
    if has_errors(findings):
        refuse(findings)
    try:
        return chosen_deployment(catalog, environment, model), LocalSystem.load(environment)
    except NotRunning:
        refuse([not_running(environment)])
