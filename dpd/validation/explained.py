"""What cdk-nag reports and stands, each finding with its rule, its one resource and the reason."""

from __future__ import annotations

from collections.abc import Mapping

from dpd.closed_model import ClosedModel
from dpd.finding import Finding
from dpd.project import ROOT
from dpd.validation.ignored import load_rows

NAG_FILE = ROOT / "policy" / "nag.yaml"


class NagRow(ClosedModel):
    """Let some rules stand for some resources, each by its exact construct path."""

    rules: tuple[str, ...]
    resources: tuple[str, ...]
    """Paths below the environment's prefix: `network/Network/Vpc` is dpd-dev-network/Network/Vpc."""
    reason: str


def explained() -> tuple[Mapping[tuple[str, str], str], list[Finding]]:
    """Return the reason by rule and resource of policy/nag.yaml, and what is wrong with the file."""
    rows, findings = load_rows(NAG_FILE, NagRow)
    table = {(rule, resource): row.reason for row in rows for rule in row.rules for resource in row.resources}
    return table, findings
