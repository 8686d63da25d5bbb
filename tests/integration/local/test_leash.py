"""A leash ends its command with whatever ends first: the command, the parent, or patience."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

import dpd.local.leash as leash

PATIENCE_S = 60
LEASH = str(Path(leash.__file__))
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(600)
"""


def start(program: str, grace_s: float = 0.2) -> subprocess.Popen[str]:
    command = (sys.executable, "-c", program)
    return subprocess.Popen(
        (sys.executable, "-I", LEASH, str(os.getpid()), str(grace_s), *command),
        stdout=subprocess.PIPE,
        text=True,
    )


def ends(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_the_exit_code_is_that_of_the_command() -> None:
    with start("raise SystemExit(7)") as process:
        assert process.wait(PATIENCE_S) == 7


def test_a_command_that_a_signal_ended_counts_as_in_a_shell() -> None:
    with start("import os; os.kill(os.getpid(), 9)") as process:
        assert process.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_what_ignores_the_request_to_end_is_killed() -> None:
    with start(STUBBORN) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_a_child_that_the_command_leaves_is_killed() -> None:
    program = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""
    with start(program) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert process.wait(PATIENCE_S) == 0
        assert ends(pid)


def test_the_command_ends_with_the_parent() -> None:
    parent = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", {LEASH!r}, str(os.getpid()), "0.2",
                          sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, check=False)
    assert ends(int(done.stdout))
