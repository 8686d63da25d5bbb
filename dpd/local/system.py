"""The running embedded system, as status, verify and drills see it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from dpd.local import loopback
from dpd.local.home import EnvironmentFolder, Home, find_home
from dpd.local.processes import command_of, end, find, memory_bytes
from dpd.local.state import Desired, ProcessRole, ProcessSpec, ProcessState, SystemState, read
from dpd.local.supervised import STOP_GRACE_S

_POLL_S = 0.2
_ANSWER_TIMEOUT_S = 2.0


class NotRunning(Exception):
    """Say that an environment is not deployed, or that one of its processes does not run now."""


class NotReady(Exception):
    """Say which processes are not well, and where their logs are."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """Show one process at one moment."""

    spec: ProcessSpec
    state: ProcessState
    log: Path
    leash: psutil.Process | None
    """Parent of the command; None while nothing runs."""

    @property
    def name(self) -> str:
        """Return `prefill-0`, `decode-0`, `router` and so on."""
        return self.spec.name

    @property
    def role(self) -> ProcessRole:
        """Return the role, or `router`."""
        return self.spec.role

    @property
    def url(self) -> str:
        """Return the address without a path."""
        return self.spec.url

    @property
    def ready(self) -> bool:
        """Tell whether it runs and answered its last health check."""
        return self.leash is not None and self.state.ready

    @property
    def pid(self) -> int | None:
        """Return the pid of the command itself, which is also its process group."""
        command = command_of(self.leash)
        return command.pid if command else None

    @property
    def started(self) -> float | None:
        """Return the start time in seconds since the epoch."""
        return self.state.identity.created if self.state.identity and self.leash else None

    @property
    def memory_bytes(self) -> int:
        """Return the resident memory of the command and everything that it started."""
        command = command_of(self.leash)
        return memory_bytes(command) if command else 0


class LocalSystem:
    """Find and handle the processes of one deployed environment.

    Every call reads the state anew, so one object serves across restarts:

    >>> system = LocalSystem.load("local")                      # doctest: +SKIP
    >>> system.router_url, [worker.url for worker in system.by_role("prefill")]
    >>> system.kill("prefill-0"); system.wait_ready(timeout_s=60)
    """

    def __init__(self, folder: EnvironmentFolder) -> None:
        self.folder = folder

    @classmethod
    def load(cls, environment: str, home: Home | None = None) -> LocalSystem:
        """Return the system of a deployed environment; raises NotRunning."""
        system = cls((home or find_home()).environment(environment))
        if not system.runs:
            raise NotRunning(f"environment `{environment}` is not running")
        return system

    @property
    def runs(self) -> bool:
        """Tell whether its supervisor is there."""
        state = self.state
        return state is not None and find(state.supervisor) is not None

    @property
    def state(self) -> SystemState | None:
        """Return what the supervisor wrote last."""
        return read(self.folder.state, SystemState)

    @property
    def desired(self) -> Desired:
        """Return what shall run, or ran last; raises NotRunning where nothing was ever deployed."""
        desired = read(self.folder.desired, Desired)
        if desired is None:
            raise NotRunning(f"nothing was ever deployed in {self.folder.path}")
        return desired

    @property
    def router_url(self) -> str:
        """Return the address that clients use."""
        return self.process("router").url

    @property
    def processes(self) -> tuple[LocalProcess, ...]:
        """Return every process, workers first; none where nothing was ever deployed."""
        desired, state = read(self.folder.desired, Desired), self.state
        states = {process.name: process for process in state.processes} if state else {}
        shown: list[LocalProcess] = []
        for spec in desired.processes if desired else ():
            process = states.get(spec.name, ProcessState(name=spec.name))
            log = self.folder.log(spec.name)
            shown.append(LocalProcess(spec, process, log, find(process.identity)))
        return tuple(shown)

    def by_role(self, role: ProcessRole) -> tuple[LocalProcess, ...]:
        """Return the processes of one role."""
        return tuple(process for process in self.processes if process.role == role)

    def process(self, name: str) -> LocalProcess:
        """Return one process; raises KeyError for a name that is not deployed."""
        return {process.name: process for process in self.processes}[name]

    def kill(self, name: str) -> None:
        """Kill a process and its children with SIGKILL; the supervisor starts it again on the same port."""
        self._signal(name, signal.SIGKILL)

    def pause(self, name: str) -> None:
        """Stop a process with SIGSTOP: its sockets accept, and nobody answers."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        self._signal(name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Ask a process to end with SIGTERM, as a rolling change does; the supervisor starts it again."""
        os.kill(self._leash(name).pid, signal.SIGTERM)

    def wait_ready(self, *, timeout_s: float) -> None:
        """Return when every process is well and none being changed; raises NotReady after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while not self.well:
            if not self.runs:
                raise NotReady("the supervisor has ended, and everything with it; deploy again")
            if time.monotonic() > deadline:
                waiting = [
                    f"{process.name} ({process.log})" for process in self.processes if not process.ready
                ]
                raise NotReady(f"not ready after {timeout_s:g} s: {', '.join(waiting) or 'a change goes on'}")
            time.sleep(_POLL_S)

    def wait_routed(self, *, timeout_s: float) -> None:
        """Return when the router uses every worker, a little after they are ready; raises NotReady."""
        deadline = time.monotonic() + timeout_s
        while waiting := self._unrouted():
            if time.monotonic() > deadline:
                raise NotReady(f"after {timeout_s:g} s the router does not use {', '.join(waiting)}")
            time.sleep(_POLL_S)

    def _unrouted(self) -> list[str]:
        workers = [process for process in self.processes if process.role != "router"]
        try:
            text = loopback.fetch(f"{self.router_url}/debug/workers", timeout_s=_ANSWER_TIMEOUT_S)
        except loopback.NoAnswer:
            return [worker.name for worker in workers]
        used = {row["url"] for row in json.loads(text)["workers"] if row["usable"]}
        return [worker.name for worker in workers if worker.url not in used]

    @property
    def well(self) -> bool:
        """Tell whether every process is as desired and ready."""
        state = self.state
        if state is None or find(state.supervisor) is None:
            return False
        return state.applied == self.desired.digest and all(process.ready for process in self.processes)

    def destroy(self) -> list[str]:
        """End everything, also what a dead supervisor has left; return the names of what was running."""
        state = self.state
        if state is None:
            return []
        names = [process.name for process in state.processes if find(process.identity) is not None]
        end([state.supervisor], grace_s=2 * STOP_GRACE_S)
        end([item.identity for item in state.processes if item.identity], grace_s=2 * STOP_GRACE_S)
        self.folder.state.unlink(missing_ok=True)
        return names

    def _signal(self, name: str, number: signal.Signals) -> None:
        command = command_of(self._leash(name))
        if command is None:
            raise NotRunning(f"{name} has just ended")
        os.killpg(command.pid, number)

    def _leash(self, name: str) -> psutil.Process:
        leash = self.process(name).leash
        if leash is None:
            raise NotRunning(f"{name} does not run now")
        return leash
