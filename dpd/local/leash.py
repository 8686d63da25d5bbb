"""Run one command so that nothing of it outlives its parent: `python leash.py PARENT_PID GRACE_S COMMAND...`.

vLLM's engine process survives a killed server, and a killed supervisor cannot clean up. So the command gets
a process group of its own, and whatever ends first, the command or the parent, ends the group. SIGTERM is
handed on; what is left after GRACE_S is killed. Needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

_POLL_S = 0.1


def main(parent_pid: int, grace_s: float, command: list[str]) -> int:
    """Return the exit code of the command, 128 + N where signal N ended it."""
    asked_to_end = False

    def ask(_number: int, _frame: object) -> None:
        nonlocal asked_to_end
        asked_to_end = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask)
    child = subprocess.Popen(command, process_group=0)
    kill_at: float | None = None
    while child.poll() is None:
        if kill_at is None and (asked_to_end or os.getppid() != parent_pid):
            kill_at = time.monotonic() + grace_s
            _signal_group(child.pid, signal.SIGTERM)
            # A stopped process reads the request only once it goes on.
            _signal_group(child.pid, signal.SIGCONT)
        elif kill_at is not None and time.monotonic() > kill_at:
            _signal_group(child.pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    _signal_group(child.pid, signal.SIGKILL)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
