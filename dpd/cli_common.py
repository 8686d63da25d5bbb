"""What the commands of `dpd` share: their options, loading, and how they report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.rules import check as check_rules
from dpd.selection import Selection, UnknownName, select
from dpd.spec.catalog import Catalog, load_catalog
from dpd.spec.local import LocalEnvironment

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
FORMAT = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to report.",
)


def options(function: Function) -> Function:
    """Add --env, --model, --config-dir and --set."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def load(
    config_dir: Path, environments: Sequence[str], models: Sequence[str], sets: Sequence[str]
) -> tuple[Catalog, Selection, list[Finding]]:
    """Load everything and apply the rules; a name that is not known ends the command with 2."""
    catalog = load_catalog(config_dir, sets)
    try:
        selection = select(catalog, environments, models)
    except UnknownName as error:
        if not (catalog.environments and catalog.models):
            refuse(list(catalog.findings))
        report_text(list(catalog.findings))
        raise click.UsageError(str(error)) from None
    return catalog, selection, check_rules(catalog, selection.environments, selection.models)


def refuse_local(catalog: Catalog, environments: Sequence[str]) -> None:
    """End a command about HyperPod with 2 where --env names an environment of this machine."""
    local = {name for name, row in catalog.environments.items() if isinstance(row.value, LocalEnvironment)}
    for name in environments:
        if name in local:
            others = ", ".join(name for name in catalog.environments if name not in local) or "none"
            raise click.UsageError(
                f"environment `{name}` runs on this machine: it has neither stacks nor manifests; "
                f"on HyperPod: {others}"
            )


def report_text(findings: list[Finding]) -> None:
    """Print findings to standard error, errors first, one a line."""
    order = list(Severity)
    for finding in sorted(findings, key=lambda finding: order.index(finding.severity)):
        mark = click.style(
            str(finding.severity),
            fg={Severity.ERROR: "red", Severity.WARNING: "yellow"}.get(finding.severity, "blue"),
        )
        click.echo(f"{mark}: {finding.text()}", err=True)


def print_json(data: dict[str, object]) -> None:
    """Print one object as JSON."""
    click.echo(json.dumps(data, indent=2, sort_keys=False))


def refuse(findings: list[Finding]) -> NoReturn:
    """End a command that cannot go on with these findings."""
    report_text(findings)
    sys.exit(EXIT_FINDINGS)


def facts_of(catalog: Catalog, findings: list[Finding]) -> Facts:
    """Return the facts; a catalogue without them ends the command."""
    if catalog.facts is None:
        refuse(findings)
    return catalog.facts
