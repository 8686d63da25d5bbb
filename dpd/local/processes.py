"""Find, signal and end processes by identity: pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import psutil

from dpd.local.state import ProcessIdentity, ProcessSpec

# Two readings of one start time differ by a clock tick at most.
_SAME_START_S = 0.05


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a running process."""
    return ProcessIdentity(pid=pid, created=psutil.Process(pid).create_time())


def find(identity: ProcessIdentity | None) -> psutil.Process | None:
    """Return the process if it still runs, and is no other with the same pid."""
    if identity is None:
        return None
    try:
        process = psutil.Process(identity.pid)
        same = abs(process.create_time() - identity.created) < _SAME_START_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def end(identities: Iterable[ProcessIdentity], *, grace_s: float) -> None:
    """Ask every process to end, and kill what still runs after ``grace_s``."""
    running = [process for process in map(find, identities) if process is not None]
    for process in running:
        _signal(process, signal.SIGTERM)
    _, left = psutil.wait_procs(running, timeout=grace_s)
    for process in left:
        for child in process.children(recursive=True):
            _signal(child, signal.SIGKILL)
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(left, timeout=grace_s)


def command_of(leash: psutil.Process | None) -> psutil.Process | None:
    """Return the command that a leash holds, which leads its process group; None once either has ended."""
    try:
        return next(iter(leash.children()), None) if leash else None
    except psutil.NoSuchProcess:
        return None


def memory_bytes(command: psutil.Process) -> int:
    """Return the resident memory of a process and all its descendants, 0 once it has ended."""
    try:
        return command.memory_info().rss + sum(memory_bytes(child) for child in command.children())
    except psutil.NoSuchProcess:
        return 0


def spawn_on_leash(
    spec: ProcessSpec, log: IO[bytes], *, python: str, grace_s: float
) -> subprocess.Popen[bytes]:
    """Start a command that ends with this process."""
    leash = (python, "-I", str(Path(__file__).with_name("leash.py")), str(os.getpid()), str(grace_s))
    return subprocess.Popen(
        (*leash, *spec.command),
        env={**os.environ, **spec.environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
