"""Make what runs equal to what is desired, and wait until it answers."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpd.finding import Finding, Severity
from dpd.local.home import EnvironmentFolder
from dpd.local.state import Desired, write
from dpd.local.system import LocalSystem

Say = Callable[[str], None]
"""Show one line of progress."""

_POLL_S = 0.2
_SUPERVISOR_START_S = 15.0
_SILENCE_S = 8.0
"""Longest pause between two lines of progress."""
_TAIL_LINES = 15


class Busy(Exception):
    """Say that another deploy or destroy of the same environment is at work."""


class DeployFailed(Exception):
    """Carry the findings that ended a deploy."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("; ".join(finding.text() for finding in findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Deployed:
    """Say what a deploy came to."""

    system: LocalSystem
    changed: bool
    """False where all of it ran already."""


def stop_at(findings: list[Finding]) -> None:
    """Raise DeployFailed where there is a finding."""
    if findings:
        raise DeployFailed(findings)


@contextmanager
def only_one(folder: EnvironmentFolder) -> Generator[None]:
    """Hold the lock of an environment; raises Busy where another command holds it."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another command is changing this environment ({folder.lock} is locked)") from None
        yield


def bring_up(
    folder: EnvironmentFolder, desired: Desired, say: Say, first_requests: Callable[[], list[Finding]]
) -> Deployed:
    """Start or change what runs, one process at a time; raises DeployFailed.

    Where it fails or is interrupted, a system that ran before stays, one that did not is ended.
    """
    system = LocalSystem(folder)
    was_running = system.runs
    if was_running and system.desired == desired and system.well:
        return Deployed(system, changed=False)
    before = {process.name: process.state.identity for process in system.processes if was_running}
    try:
        write(folder.desired, desired)
        if not was_running:
            # What a killed supervisor has left would hold the ports.
            system.destroy()
            _start_supervisor(folder)
        _wait(system, say, before)
        stop_at(first_requests())
    except BaseException:
        if not was_running:
            system.destroy()
        raise
    return Deployed(system, changed=True)


def _start_supervisor(folder: EnvironmentFolder) -> None:
    log = folder.log("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        process = subprocess.Popen(
            (sys.executable, "-m", "dpd.local.supervisor", str(folder.path)),
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + _SUPERVISOR_START_S
    while not LocalSystem(folder).runs:
        if process.poll() is not None or time.monotonic() > deadline:
            raise DeployFailed([_not_started("supervisor", log, process.returncode)])
        time.sleep(_POLL_S)
    # It goes on after this process; nobody here waits for its end.
    process.returncode = 0


def _wait(system: LocalSystem, say: Say, before: Mapping[str, object]) -> None:
    """Wait until everything is well, saying what has become ready; raises DeployFailed where one dies."""
    started = spoken = time.monotonic()
    told, restarts = dict(before), dict[str, int]()
    while True:
        # Asked first, so that what makes it well is still told.
        well = system.well
        if not system.runs:
            raise DeployFailed([_not_started("supervisor", system.folder.log("supervisor"), None)])
        now, processes = time.monotonic(), system.processes
        for process in processes:
            name, state = process.name, process.state
            if process.ready and told.get(name) != state.identity:
                told[name], spoken = state.identity, now
                say(f"{name}: ready at {process.url} ({now - started:.0f} s)")
            if state.restarts > restarts.get(name, state.restarts):
                raise DeployFailed([_not_started(name, process.log, state.exit_code)])
            restarts[name] = state.restarts
        if well:
            return
        if now - spoken > _SILENCE_S:
            spoken = now
            waiting = [process.name for process in processes if not process.ready]
            say(f"waiting for {', '.join(waiting) or 'a change to end'} ({now - started:.0f} s)")
        time.sleep(_POLL_S)


def _not_started(name: str, log: Path, exit_code: int | None) -> Finding:
    tail = "\n  ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
    how = "" if exit_code is None else f" (exit code {exit_code})"
    return Finding(
        "LOC105",
        Severity.ERROR,
        name,
        f"did not start{how}; the end of its log:\n  {tail}\n",
        got=exit_code,
        fix=f"the whole log is {log}",
    )
