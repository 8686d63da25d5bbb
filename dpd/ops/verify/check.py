"""The result of one check: what was seen, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpd.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class Check:
    """Say what one check saw. One that is not ``judged`` found nothing to look at, since another failed."""

    name: str
    saw: str
    findings: tuple[Finding, ...] = ()
    judged: bool = True

    @property
    def outcome(self) -> Literal["passed", "failed", "not judged"]:
        """Return how it ended; warnings do not fail it."""
        if not self.judged:
            return "not judged"
        failed = any(finding.severity == Severity.ERROR for finding in self.findings)
        return "failed" if failed else "passed"

    def to_json(self) -> dict[str, object]:
        """Return plain data; findings stand elsewhere, and only their ids here."""
        ids = [finding.id for finding in self.findings]
        return {"name": self.name, "outcome": self.outcome, "saw": self.saw, "findings": ids}


def no_answer(where: str, reason: Exception) -> Finding:
    """Return what is to be said of something that does not tell its state."""
    fix = "see its log, and `dpd status`"
    return error("VER011", where, str(reason), got="no answer", allowed="an answer", fix=fix)


def error(id: str, where: str, message: str, *, got: object, allowed: object, fix: str) -> Finding:
    """Return one error of a running system."""
    return Finding(id, Severity.ERROR, where, message, got=got, allowed=allowed, fix=fix)
