"""`dpd router`: what concerns the data plane by itself."""

from __future__ import annotations

from pathlib import Path

import click

from dpd.router_zipapp import CONFIG_MAP_BYTES
from dpd.router_zipapp import build as build_zipapp


@click.group()
def router() -> None:
    """Pack the router. `python -m dpd.router --config FILE` runs it."""


@router.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    default=Path("dpd-router.pyz"),
    show_default=True,
    help="File to write.",
)
def build(out: Path) -> None:
    """Write one file that runs with the Python of a worker image: `python dpd-router.pyz --config FILE`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    size = build_zipapp(out)
    click.echo(f"{out}: {size} bytes, {100 * size / CONFIG_MAP_BYTES:.0f} % of what a ConfigMap holds")
