"""One process under the supervisor: started, watched, started again when it dies or hangs, ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from dpd.local import loopback
from dpd.local.home import EnvironmentFolder
from dpd.local.ports import is_free
from dpd.local.processes import identify, spawn_on_leash
from dpd.local.state import ProcessIdentity, ProcessSpec, ProcessState

STOP_GRACE_S = 10.0
"""From SIGTERM to SIGKILL: longer than vLLM and the router take to end idle."""
_ADDRESS_S = 5.0
"""How long an address may still be held, by the process that ended before."""
_POLL_S = 0.2
_HEALTH_INTERVAL_S, _HEALTH_TIMEOUT_S = 2.0, 2.0
_HANG_S = 30.0
"""Silence after which a process that was well is started again, as a liveness probe of a pod would do."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_STEADY_S = 60.0
"""After running so long, the next death counts as the first."""


class Supervised:
    """Keep one process running until `stop`; ``changed`` is called when its state has changed."""

    def __init__(
        self,
        spec: ProcessSpec,
        folder: EnvironmentFolder,
        changed: Callable[[], None],
        *,
        hang_s: float = _HANG_S,
    ) -> None:
        self.spec = spec
        self.ready = False
        self._restarts = 0
        self._folder, self._changed, self._hang_s = folder, changed, hang_s
        self._popen: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._exit_code: int | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> ProcessState:
        """Return what the state file says of this process."""
        return ProcessState(
            name=self.spec.name,
            identity=self._identity,
            restarts=self._restarts,
            ready=self.ready,
            exit_code=self._exit_code,
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the process and go on watching it, in a task whose failure fails the group."""
        self._task = tasks.create_task(self._keep_running(), name=self.spec.name)

    async def stop(self) -> None:
        """End the process and whatever it has started."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end()

    async def _keep_running(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            if await self._address_is_free():
                self._spawn()
                await self._watch()
                await self._end()
            self._restarts += 1
            self._changed()
            if time.monotonic() - started > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _address_is_free(self) -> bool:
        """Wait for the address; somebody else's server there would be taken for this process."""
        port = urlsplit(self.spec.url).port or 0
        deadline = time.monotonic() + _ADDRESS_S
        while not is_free(port):
            if time.monotonic() > deadline:
                with self._log() as stream:
                    stream.write(f"{self.spec.url} is in use by another program\n".encode())
                return False
            await asyncio.sleep(_POLL_S)
        return True

    def _log(self) -> IO[bytes]:
        log = self._folder.log(self.spec.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")

    def _spawn(self) -> None:
        for path, text in self.spec.files.items():
            Path(path).write_text(text, encoding="utf-8")
        with self._log() as stream:
            self._popen = spawn_on_leash(self.spec, stream, python=sys.executable, grace_s=STOP_GRACE_S)
        self._identity = identify(self._popen.pid)
        self._changed()

    async def _watch(self) -> None:
        """Return when the process has ended, or has been silent for too long."""
        silent_since = time.monotonic()
        while await self._runs_on():
            well = await asyncio.to_thread(
                loopback.answers, self.spec.url + self.spec.health_path, timeout_s=_HEALTH_TIMEOUT_S
            )
            if well:
                silent_since = time.monotonic()
                self._set_ready(True)
            elif time.monotonic() - silent_since > (
                self._hang_s if self.ready else self.spec.ready_timeout_s
            ):
                return

    async def _runs_on(self) -> bool:
        """Wait until the next health check is due; tell whether the process has not ended before."""
        due = time.monotonic() + (_HEALTH_INTERVAL_S if self.ready else _POLL_S)
        while self._popen is not None and self._popen.poll() is None:
            if time.monotonic() > due:
                return True
            await asyncio.sleep(_POLL_S)
        return False

    def _set_ready(self, ready: bool) -> None:
        if self.ready != ready:
            self.ready = ready
            self._changed()

    async def _end(self) -> None:
        if self._popen is not None:
            self._popen.terminate()
            self._exit_code = await asyncio.to_thread(self._popen.wait)
        self._popen = self._identity = None
        self._set_ready(False)
