"""A verification as text: one line a check, and what to do next."""

from __future__ import annotations

from typing import Final

from dpd.ops.verify.verify import Report

_MARKS: Final = {"passed": "ok", "failed": "FAILED", "not judged": "-"}


def report_lines(report: Report) -> list[str]:
    """Return the report; findings are printed apart from it."""
    target, checks = report.target, report.checks
    simulated = ", SIMULATED engines: answers and times mean nothing" if target.engine == "simulated" else ""
    width = max(len(check.name) for check in checks)
    passed = sum(check.outcome == "passed" for check in checks)
    return [
        f"{target.environment}: {target.model} at {target.router_url}{simulated}",
        *(f"  {_MARKS[check.outcome]:6}  {check.name:{width}}  {check.saw}" for check in checks),
        f"{passed} of {len(checks)} checks passed",
    ]
