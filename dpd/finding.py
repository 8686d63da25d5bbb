"""The one form in which every command reports what it found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How a finding counts: errors fail a command, warnings only with ``--strict``."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Say what is wrong, where, and how to mend it.

    ``path`` is the dotted path inside ``file``; ``line`` counts from 1. ``accepted`` holds the
    reason that an environment file gave for lowering the severity.
    """

    id: str
    severity: Severity
    path: str
    message: str
    got: object = field(default=None, hash=False)
    allowed: object = field(default=None, hash=False)
    fix: str = ""
    source: str = ""
    file: str = ""
    line: int | None = None
    accepted: str = ""

    def text(self) -> str:
        """Render the finding as one line: file, line, path, message, fix and id."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        where = ": ".join(part for part in (place, self.path) if part)
        body = f"{self.message}; {self.fix}" if self.fix else self.message
        accepted = f" (lowered to {self.severity}: {self.accepted})" if self.accepted else ""
        return f"{where}: {body} [{self.id}]{accepted}" if where else f"{body} [{self.id}]{accepted}"

    def to_json(self) -> dict[str, object]:
        """Return the contract's keys (design section 6) plus ``file``, ``line`` and ``accepted``."""
        return {
            "id": self.id,
            "severity": str(self.severity),
            "path": self.path,
            "message": self.message,
            "got": _plain(self.got),
            "allowed": _plain(self.allowed),
            "fix": self.fix,
            "source": self.source,
            "file": self.file,
            "line": self.line,
            "accepted": self.accepted,
        }


def _plain(value: object) -> object:
    """Return ``value`` as JSON can hold it; whatever has no JSON form becomes text."""
    try:
        plain: object = json.loads(json.dumps(value, default=str, allow_nan=False))
    except (TypeError, ValueError):
        # Keys such as dates, and numbers that are not finite.
        return str(value)
    return plain


def has_errors(findings: Iterable[Finding], *, strict: bool = False) -> bool:
    """Tell whether the findings fail a command; ``strict`` counts warnings too."""
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return any(finding.severity in failing for finding in findings)
