"""Warnings of third-party validators that we have looked at, each with the reason to let it stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dpd.closed_model import ClosedModel, validate
from dpd.finding import Finding, Severity
from dpd.project import ROOT
from dpd.yaml_file import Path_, dotted, read_yaml

IGNORED_FILE = ROOT / "policy" / "ignored.yaml"

Tool = Literal["cloudformation-validate", "cfn-lint"]


class IgnoredRow(ClosedModel):
    """Let one rule of some tools stand for the resources whose logical id matches."""

    tools: tuple[Tool, ...]
    rule: str
    resource: str
    """Regular expression over the whole logical id."""
    reason: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Answer whether a warning has been looked at."""

    rows: tuple[IgnoredRow, ...]

    def match(self, tool: Tool, rule: str, resource: str) -> IgnoredRow | None:
        """Return the row that explains a warning, None where nobody has."""
        for row in self.rows:
            if tool in row.tools and row.rule == rule and re.fullmatch(row.resource, resource):
                return row
        return None


def load_ignored() -> tuple[Ignored, list[Finding]]:
    """Read policy/ignored.yaml; a row without a reason is a finding and is not applied."""
    file = read_yaml(IGNORED_FILE)
    findings = list(file.findings)
    rows: list[IgnoredRow] = []
    for key, data in file.data.items():

        def locate(loc: Path_, key: str = key) -> tuple[str, int | None, str]:
            return str(IGNORED_FILE), file.line((key, *loc)), dotted((key, *loc))

        if not isinstance(data, dict):
            message = f"row {key!r} must be a mapping"
            findings.append(Finding("CFG003", Severity.ERROR, str(key), message, file=str(IGNORED_FILE)))
            continue
        row, found = validate(IgnoredRow, data, locate)  # pyright: ignore[reportUnknownArgumentType]
        findings += found
        if row is not None:
            rows.append(row)
    return Ignored(tuple(rows)), findings
