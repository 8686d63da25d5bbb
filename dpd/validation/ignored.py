"""Warnings of third-party validators that we have looked at, each with the reason to let it stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from dpd.closed_model import ClosedModel, validate
from dpd.finding import Finding, Severity
from dpd.project import ROOT
from dpd.yaml_file import Path_, dotted, read_yaml

IGNORED_FILE = ROOT / "policy" / "ignored.yaml"

Row = TypeVar("Row", bound=ClosedModel)
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
    rows, findings = load_rows(IGNORED_FILE, IgnoredRow)
    return Ignored(tuple(rows)), findings


def load_rows(path: Path, row_type: type[Row]) -> tuple[list[Row], list[Finding]]:
    """Read a file of named rows of one type, with a finding for each row that is not one."""
    file = read_yaml(path)
    findings = list(file.findings)
    rows: list[Row] = []
    for key, data in file.data.items():

        def locate(loc: Path_, key: str = key) -> tuple[str, int | None, str]:
            return str(path), file.line((key, *loc)), dotted((key, *loc))

        if not isinstance(data, dict):
            message = f"row {key!r} must be a mapping"
            findings.append(Finding("CFG003", Severity.ERROR, str(key), message, file=str(path)))
            continue
        row, found = validate(row_type, data, locate)  # pyright: ignore[reportUnknownArgumentType]
        findings += found
        if row is not None:
            rows.append(row)
    return rows, findings
