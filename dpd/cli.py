"""The `dpd` command. Each command loads, selects, calls one module, and reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from dpd import __version__
from dpd.facts import Facts
from dpd.finding import Finding, Severity, has_errors
from dpd.project import NoCheckout
from dpd.rules import check as check_rules
from dpd.rules import rules as all_rules
from dpd.selection import Selection, UnknownName, select
from dpd.spec.catalog import Catalog, load_catalog

EXIT_FINDINGS = 1
EXIT_USAGE = 2

Function = TypeVar("Function", bound=Callable[..., None])


def _complete(folder: str) -> Callable[..., list[CompletionItem]]:
    """Return a completer that offers the names of the files in one folder of --config-dir."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        files = (Path(context.params.get("config_dir") or "config") / folder).glob("*.yaml")
        return [CompletionItem(path.stem) for path in sorted(files) if path.stem.startswith(incomplete)]

    return complete


_OPTIONS = (
    click.option(
        "--env",
        "environments",
        multiple=True,
        metavar="NAME",
        help="Environment; may be repeated. Default: all.",
        shell_complete=_complete("environments"),
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="NAME",
        help="Model; may be repeated. Default: all models of the environment.",
        shell_complete=_complete("models"),
    ),
    click.option(
        "--config-dir",
        type=click.Path(path_type=Path),
        default=Path("config"),
        show_default=True,
        help="Folder with environments/, models/ and facts/.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the models, such as dpd.pd_buffer=16GiB; may be repeated.",
    ),
)
_FORMAT = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to report.",
)


def _options(function: Function) -> Function:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _load(
    config_dir: Path, environments: Sequence[str], models: Sequence[str], sets: Sequence[str]
) -> tuple[Catalog, Selection, list[Finding]]:
    """Load everything and apply the rules; a name that is not known ends the command with 2."""
    catalog = load_catalog(config_dir, sets)
    try:
        selection = select(catalog, environments, models)
    except UnknownName as error:
        _report_text(list(catalog.findings))
        raise click.UsageError(str(error)) from None
    return catalog, selection, check_rules(catalog, selection.environments, selection.models)


def _report_text(findings: list[Finding]) -> None:
    """Print findings to standard error, errors first, one a line."""
    order = list(Severity)
    for finding in sorted(findings, key=lambda finding: order.index(finding.severity)):
        mark = click.style(
            str(finding.severity),
            fg={Severity.ERROR: "red", Severity.WARNING: "yellow"}.get(finding.severity, "blue"),
        )
        click.echo(f"{mark}: {finding.text()}", err=True)


def _print_json(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, indent=2, sort_keys=False))


def _refuse(findings: list[Finding]) -> NoReturn:
    """End a command that cannot go on with these findings."""
    _report_text(findings)
    sys.exit(EXIT_FINDINGS)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpd")
def main() -> None:
    """Serve long-context LLMs with disaggregated prefill and decode on SageMaker HyperPod.

    Exit codes: 0 nothing wrong, 1 at least one error finding, 2 wrong usage or the tool failed.
    """


@main.command()
@_options
@_FORMAT
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
    catalog, selection, findings = _load(config_dir, environments, models, sets)
    if output == "json":
        _print_json({"findings": [finding.to_json() for finding in findings]})
    else:
        _report_text(findings)
        errors = sum(finding.severity == Severity.ERROR for finding in findings)
        warnings = sum(finding.severity == Severity.WARNING for finding in findings)
        click.echo(
            f"{len(selection.environments)} environments, {len(catalog.models)} models, "
            f"{len(all_rules())} rules: {errors} errors, {warnings} warnings"
        )
    sys.exit(EXIT_FINDINGS if has_errors(findings, strict=strict) else 0)


@main.command()
@_options
@_FORMAT
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

    catalog, selection, findings = _load(config_dir, environments, models, sets)
    facts = _facts(catalog, findings)
    plans: list[Plan] = []
    for name in selection.environments:
        environment = catalog.environments[name].value
        if environment is not None:
            own = check_rules(catalog, [name], selection.models)
            plans.append(build_plan(catalog, facts, environment, selection.models_of(environment), own))
    if output == "json":
        _print_json(
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
        _report_text(findings)
    sys.exit(EXIT_FINDINGS if has_errors(findings) else 0)


def _facts(catalog: Catalog, findings: list[Finding]) -> Facts:
    if catalog.facts is None:
        _refuse(findings)
    return catalog.facts


@main.command()
@_options
def manifests(
    environments: tuple[str, ...], models: tuple[str, ...], config_dir: Path, sets: tuple[str, ...]
) -> None:
    """Print the Kubernetes objects of the chosen models as YAML."""
    from dpd.render import render_manifests

    catalog, selection, findings = _load(config_dir, environments, models, sets)
    if has_errors(findings):
        _refuse(findings)
    text, found = render_manifests(catalog, _facts(catalog, findings), selection)
    findings += found
    if has_errors(findings):
        _refuse(findings)
    _report_text(findings)
    click.echo(text, nl=False)


@main.command()
@_options
@_FORMAT
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

    catalog, selection, findings = _load(config_dir, environments, models, sets)
    written: list[Path] = []
    if not has_errors(findings) and catalog.facts is not None:
        written, found = synthesise(catalog, catalog.facts, selection, out, validate=validate)
        findings += found
    if output == "json":
        _print_json(
            {
                "written": [str(path) for path in written],
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        _report_text(findings)
        for path in written:
            click.echo(f"wrote {path}")
    sys.exit(EXIT_FINDINGS if has_errors(findings) else 0)


@main.command()
@click.argument("rule_id", required=False, metavar="[ID]")
@_FORMAT
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
        _print_json({"rules": rows})
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


def _without_traceback(function: Callable[..., Any]) -> Callable[[], None]:
    """Turn what a person can do something about into one line and exit code 2."""

    @wraps(function)
    def run() -> None:
        try:
            function(prog_name="dpd")
        except (OSError, NoCheckout) as error:
            click.echo(f"dpd: {error}", err=True)
            sys.exit(EXIT_USAGE)
        except ModuleNotFoundError as error:
            click.echo(f"dpd: {error}; install requirements.txt, or run `make up`", err=True)
            sys.exit(EXIT_USAGE)

    return run


run = _without_traceback(main)

if __name__ == "__main__":
    run()
