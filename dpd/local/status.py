"""What runs in one environment, as data, text and findings."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from prometheus_client.parser import text_string_to_metric_families

from dpd.finding import Finding, Severity
from dpd.local import loopback
from dpd.local.system import LocalProcess, LocalSystem
from dpd.quantity import format_gib

_ANSWER_TIMEOUT_S = 2.0
_PATH_COUNTER = "dpd_router_requests_total"


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """Show one process."""

    name: str
    role: str
    url: str
    pid: int | None
    uptime_s: float | None
    restarts: int
    memory_bytes: int
    ready: bool
    log: str


@dataclass(frozen=True, slots=True)
class Status:
    """Show one environment at one moment."""

    environment: str
    model: str
    engine: str
    router_url: str
    processes: tuple[ProcessRow, ...]
    requests_by_path: dict[str, int]
    """Since the router's start; the first requests of a deploy count too."""

    def to_json(self) -> dict[str, object]:
        """Return plain data with the same names."""
        return asdict(self)


def status(system: LocalSystem) -> tuple[Status, list[Finding]]:
    """Read the state of a running system, with a LOC108 for each process that is not well."""
    desired = system.desired
    rows = tuple(_row(process) for process in system.processes)
    findings = [
        Finding(
            "LOC108",
            Severity.ERROR,
            row.name,
            f"not ready after {row.restarts} restarts; it is started again without help",
            fix=f"if it stays so, see {row.log}",
        )
        for row in rows
        if not row.ready
    ]
    paths = _requests_by_path(system.router_url)
    return Status(
        desired.environment, desired.model, desired.engine, system.router_url, rows, paths
    ), findings


def not_running(environment: str) -> Finding:
    """Return the LOC107 of an environment that is not deployed."""
    message = f"environment `{environment}` is not running"
    return Finding(
        "LOC107", Severity.ERROR, "", message, fix=f"start it with `dpd deploy --env {environment}`"
    )


def lines(shown: Status) -> list[str]:
    """Return a table of processes, and the router's counters below it."""
    head = ("process", "url", "pid", "uptime", "restarts", "memory", "state")
    table = [head, *(_cells(row) for row in shown.processes)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    paths = ", ".join(f"{path} {count}" for path, count in sorted(shown.requests_by_path.items()))
    simulated = ", SIMULATED engines: answers and times mean nothing" if shown.engine == "simulated" else ""
    return [
        f"{shown.environment}: {shown.model} at {shown.router_url}{simulated}",
        *text,
        f"requests: {paths or 'none'}",
    ]


def _row(process: LocalProcess) -> ProcessRow:
    return ProcessRow(
        name=process.name,
        role=process.role,
        url=process.url,
        pid=process.pid,
        uptime_s=None if process.started is None else round(time.time() - process.started, 1),
        restarts=process.state.restarts,
        memory_bytes=process.memory_bytes,
        ready=process.ready,
        log=str(process.log),
    )


def _cells(row: ProcessRow) -> tuple[str, ...]:
    uptime = "-" if row.uptime_s is None else f"{row.uptime_s:.0f} s"
    state = "ready" if row.ready else "not ready"
    pid = str(row.pid or "-")
    return (row.name, row.url, pid, uptime, str(row.restarts), format_gib(row.memory_bytes, 2), state)


def _requests_by_path(router_url: str) -> dict[str, int]:
    """Return how many requests took each path; nothing where the router does not answer."""
    try:
        text = loopback.fetch(f"{router_url}/metrics", timeout_s=_ANSWER_TIMEOUT_S)
    except loopback.NoAnswer:
        return {}
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == _PATH_COUNTER:
                path = sample.labels["path"]
                counts[path] = counts.get(path, 0) + int(sample.value)
    return counts
