"""The `dpd` command. Each command loads, selects, calls one module, and reports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from dpd import __version__
from dpd.cli_common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    FORMAT,
    facts_of,
    load,
    options,
    print_json,
    refuse,
    refuse_local,
    report_text,
)
from dpd.cli_local import deploy, destroy, status
from dpd.cli_mirror import mirror
from dpd.cli_router import router
from dpd.cli_verify import drill, verify
from dpd.finding import Severity, has_errors
from dpd.project import NoCheckout
from dpd.rules import check as check_rules
from dpd.rules import rules as all_rules

_TRACEBACK = "DPD_TRACEBACK"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpd")
def main() -> None:
    """Serve long-context LLMs with disaggregated prefill and decode on SageMaker HyperPod.

    Exit codes: 0 nothing wrong, 1 at least one error finding, 2 wrong usage or the tool failed.
    """


@main.command()
@options
@FORMAT
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
def check(
    environments: tuple[str, ...],
    models: tuple[str, ...],
    config_dir: Path,
    sets: tuple[str, ...],
    output: str,
    strict: bool,
) -> None:
    """Apply every rule to every file. Needs no AWS account, no network and no Node.js."""
    catalog, selection, findings = load(config_dir, environments, models, sets)
    if output == "json":
        print_json({"findings": [finding.to_json() for finding in findings]})
    else:
        report_text(findings)
        errors = sum(finding.severity == Severity.ERROR for finding in findings)
        warnings = sum(finding.severity == Severity.WARNING for finding in findings)
        read = (
            _count(len(selection.environments), "environment"),
            _count(len(catalog.models), "model"),
            _count(len(all_rules()), "rule"),
        )
        click.echo(f"{', '.join(read)}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    sys.exit(EXIT_FINDINGS if has_errors(findings, strict=strict) else 0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@main.command()
@options
@FORMAT
@click.option("--explain", is_flag=True, help="Show where each value of a model comes from.")
def plan(
    environments: tuple[str, ...],
    models: tuple[str, ...],
    config_dir: Path,
    sets: tuple[str, ...],
    output: str,
    explain: bool,
) -> None:
    """Show topology, memory, KV cache, cost and the quotas to ask for."""
    from dpd.plan import Plan, build_plan, to_json
    from dpd.plan_local import LocalPlan

    catalog, selection, findings = load(config_dir, environments, models, sets)
    facts = facts_of(catalog, findings)
    plans: list[Plan | LocalPlan] = []
    for name in selection.environments:
        environment = catalog.environments[name].value
        if environment is not None:
            own = check_rules(catalog, [name], selection.models)
            plans.append(build_plan(catalog, facts, environment, selection.models_of(environment), own))
    if output == "json":
        print_json(
            {
                "plans": [to_json(plan, explain=explain) for plan in plans],
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        from rich.console import Console

        from dpd.plan_text import print_plan

        console = Console(highlight=False)
        for index, item in enumerate(plans):
            if index:
                console.rule()
            print_plan(item, console, explain=explain)
        report_text(findings)
    sys.exit(EXIT_FINDINGS if has_errors(findings) else 0)


@main.command()
@options
def manifests(
    environments: tuple[str, ...], models: tuple[str, ...], config_dir: Path, sets: tuple[str, ...]
) -> None:
    """Print the Kubernetes objects of the chosen models as YAML."""
    from dpd.render import render_manifests

    catalog, selection, findings = load(config_dir, environments, models, sets)
    refuse_local(catalog, environments)
    if has_errors(findings):
        refuse(findings)
    text, found = render_manifests(catalog, facts_of(catalog, findings), selection)
    findings += found
    if has_errors(findings):
        refuse(findings)
    report_text(findings)
    click.echo(text, nl=False)


@main.command()
@options
@FORMAT
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("dist"),
    show_default=True,
    help="Folder that receives one folder per environment.",
)
@click.option("--validate", is_flag=True, help="Run every offline validator on what was written.")
def synth(
    environments: tuple[str, ...],
    models: tuple[str, ...],
    config_dir: Path,
    sets: tuple[str, ...],
    output: str,
    out: Path,
    validate: bool,
) -> None:
    """Write templates and manifests of each environment; whole or not at all."""
    from dpd.synth import synthesise

    catalog, selection, findings = load(config_dir, environments, models, sets)
    refuse_local(catalog, environments)
    written: list[Path] = []
    if not has_errors(findings) and catalog.facts is not None:
        written, found = synthesise(catalog, catalog.facts, selection, out, validate=validate)
        findings += found
    if output == "json":
        print_json(
            {
                "written": [str(path) for path in written],
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        report_text(findings)
        for path in written:
            click.echo(f"wrote {path}")
    sys.exit(EXIT_FINDINGS if has_errors(findings) else 0)


@main.command()
@click.argument("rule_id", required=False, metavar="[ID]")
@FORMAT
def rules(rule_id: str | None, output: str) -> None:
    """List the catalogue, or print one rule with symptom, cause, fix, source and snippets."""
    from dpd.reference import rule_text

    catalogue = all_rules()
    if rule_id is not None and rule_id.upper() not in catalogue:
        raise click.UsageError(f"unknown rule `{rule_id}`. Known: {', '.join(catalogue)}")
    chosen = [catalogue[rule_id.upper()]] if rule_id else list(catalogue.values())
    if output == "json":
        rows = [
            {"id": rule.id, "severity": str(rule.severity)}
            | {key: getattr(rule.doc, key) for key in rule.doc.__dataclass_fields__}
            for rule in chosen
        ]
        print_json({"rules": rows})
    elif rule_id:
        click.echo(rule_text(chosen[0]), nl=False)
    else:
        for rule in chosen:
            click.echo(f"{rule.id}  {rule.severity:8}{rule.doc.title}")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: eval "$(dpd completion bash)"."""
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(main, {}, "dpd", "_DPD_COMPLETE").source())


main.add_command(deploy)
main.add_command(destroy)
main.add_command(drill)
main.add_command(mirror)
main.add_command(router)
main.add_command(status)
main.add_command(verify)


def _without_traceback(function: Callable[..., Any]) -> Callable[[], None]:
    """Turn what a person can do something about into one line and exit code 2."""

    @wraps(function)
    def run() -> None:
        ended = False

        def end(_number: int, _frame: object) -> None:
            """End as on an error, so that what is half written is removed."""
            nonlocal ended
            ended = True
            sys.exit(128 + signal.SIGTERM)

        signal.signal(signal.SIGTERM, end)
        try:
            function(prog_name="dpd")
        except (OSError, NoCheckout) as error:
            click.echo(f"dpd: {error}", err=True)
            sys.exit(EXIT_USAGE)
        except ModuleNotFoundError as error:
            click.echo(f"dpd: {error}; install requirements.txt, or run `make up`", err=True)
            sys.exit(EXIT_USAGE)
        except Exception as error:
            if ended or os.environ.get(_TRACEBACK):
                raise
            lines = str(error).splitlines() or [type(error).__name__]
            click.echo(f"dpd: a fault of dpd itself: {lines[0]}", err=True)
            click.echo(f"dpd: please report it, with the output under {_TRACEBACK}=1", err=True)
            sys.exit(EXIT_USAGE)
        finally:
            # A library may have taken the exit for an error of its own, or ignored it in a callback.
            if ended:
                sys.exit(128 + signal.SIGTERM)

    return run


run = _without_traceback(main)

if __name__ == "__main__":
    run()
