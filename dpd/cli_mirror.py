"""`dpd mirror`: what a closed network needs copies of, and the copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from dpd.cli_common import FORMAT, facts_of, load, options, print_json, refuse, refuse_local, report_text
from dpd.facts import Facts
from dpd.finding import has_errors
from dpd.ops.mirror_plan import Copy, PlannedCopy, copies, planned
from dpd.project import use_checkout
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror
from dpd.spec.mirror_file import mirror_path

_FETCH_SCRIPT = Path("constructs/dpd_constructs/base_chart_scripts/fetch.sh")


class MirrorStopped(click.ClickException):
    """End the command as a failure of the tool, which is exit code 2."""

    exit_code = 2


@click.command()
@options
@FORMAT
@click.option(
    "--plan", "mode", flag_value="plan", default="plan", help="Print what would be copied (default)."
)
@click.option("--apply", "mode", flag_value="apply", help="Copy it, with skopeo or crane, git and helm.")
def mirror(
    environments: tuple[str, ...],
    models: tuple[str, ...],
    config_dir: Path,
    sets: tuple[str, ...],
    output: str,
    mode: str,
) -> None:
    """Copy images and base chart for a closed network into the account, pinned by digest."""
    if mode == "apply" and not environments:
        raise click.UsageError("--apply needs --env: copies take time and cost money")
    catalog, selection, _ = load(config_dir, environments, models, sets)
    refuse_local(catalog, environments)
    # Rules about what is not copied yet must not stand in the way of copying.
    broken = list(catalog.findings)
    if has_errors(broken):
        refuse(broken)
    report_text(broken)
    facts = facts_of(catalog, broken)
    plans: dict[str, list[PlannedCopy]] = {}
    for name in selection.environments:
        environment = catalog.environments[name].value
        if environment is None or environment.backend != "hyperpod":
            continue
        items = _items(catalog, environment, selection.models_of(environment), facts)
        if mode == "apply":
            done = _apply(environment, items, facts, mirror_path(config_dir, name))
            environment = environment.model_copy(update={"mirror": done})
            items = _items(catalog, environment, selection.models_of(environment), facts)
        plans[name] = planned(environment, items, facts)
    if output == "json":
        rows = {name: [asdict(copy) for copy in plan] for name, plan in plans.items()}
        print_json({"mirrors": rows, "findings": [finding.to_json() for finding in broken]})
    elif mode == "plan":
        _print(plans)


def _items(catalog: Catalog, environment: Environment, models: Sequence[str], facts: Facts) -> list[Copy]:
    loaded = [catalog.effective(environment.name, name)[0].value for name in models]
    return copies(environment, [model for model in loaded if model is not None], facts)


def _print(plans: Mapping[str, Sequence[PlannedCopy]]) -> None:
    for name, plan in plans.items():
        click.echo(f"{name}:")
        for copy in plan:
            click.echo(f"  {'have' if copy.digest else 'copy'}  {copy.source} -> {copy.target}")


def _apply(environment: Environment, items: Sequence[Copy], facts: Facts, file: Path) -> Mirror:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    from dpd.ops.mirror import Clients, apply_mirror
    from dpd.ops.registry_copy import MirrorFailed

    region = environment.region
    try:
        clients = Clients(
            sts=boto3.client("sts", region_name=region),
            ecr=boto3.client("ecr", region_name=region),
            s3=boto3.client("s3", region_name=region),
        )
        done = apply_mirror(
            environment,
            items,
            facts,
            clients,
            file=file,
            fetch_script=use_checkout() / _FETCH_SCRIPT,
            say=lambda text: click.echo(text, err=True),
        )
    except (MirrorFailed, BotoCoreError, ClientError) as error:
        raise MirrorStopped(str(error)) from error
    click.echo(f"wrote {file}", err=True)
    return done
