"""Which base chart an environment installs."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.spec.environment import Environment


@dataclass(frozen=True, slots=True)
class ChartPin:
    """Name one commit of the chart's repository; ``archive_sha256`` is empty where nobody measured it."""

    repository: str
    commit: str
    folder: str
    archive_sha256: str


def chart_pin(environment: Environment, facts: Facts) -> ChartPin:
    """Return the chart that the environment asks for, wherever it will be fetched from."""
    chart, hyperpod = facts.charts["hyperpod-base"], environment.hyperpod
    # The digest in the facts belongs to the commit in the facts.
    known = chart.archive_sha256 if hyperpod.chart_commit in {None, chart.commit} else None
    return ChartPin(
        repository=chart.repository,
        commit=hyperpod.chart_commit or chart.commit,
        folder=chart.folder,
        archive_sha256=hyperpod.chart_archive_sha256 or known or "",
    )
