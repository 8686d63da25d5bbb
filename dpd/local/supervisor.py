"""Own the processes of one environment: `python -m dpd.local.supervisor FOLDER`.

Runs detached from any terminal. It reads `desired.json`, brings what runs in line with it, and writes
`state.json`. SIGTERM ends everything. Its own death ends everything too, by the leash of each process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from dpd.local.home import EnvironmentFolder
from dpd.local.processes import identify
from dpd.local.state import Desired, ProcessSpec, SystemState, read, write
from dpd.local.supervised import Supervised

_POLL_S = 0.2


class Supervisor:
    """Bring the processes of one environment in line with what is desired, again and again."""

    def __init__(self, folder: EnvironmentFolder, ended: asyncio.Event) -> None:
        self._folder, self._ended = folder, ended
        self._identity = identify(os.getpid())
        self._running: dict[str, Supervised] = {}
        self._desired: Desired | None = None
        self._applied: str | None = None

    async def run(self) -> None:
        """Work until it is to end, then end every process."""
        async with asyncio.TaskGroup() as tasks:
            while not self._ended.is_set():
                desired = read(self._folder.desired, Desired)
                if desired is not None and desired != self._desired:
                    self._desired, self._applied = desired, None
                    if await self._apply(desired, tasks):
                        self._applied = desired.digest
                        self._save()
                await asyncio.sleep(_POLL_S)
            await asyncio.gather(*(process.stop() for process in self._running.values()))

    async def _apply(self, desired: Desired, tasks: asyncio.TaskGroup) -> bool:
        """Start what is new at once, replace one process at a time, end what is no longer wanted.

        Returns False where something newer is desired before all of it is done.
        """
        wanted = {spec.name: spec for spec in desired.processes}
        new = [spec for name, spec in wanted.items() if name not in self._running]
        for spec in new:
            self._start(spec, tasks)
        if not await self._all_ready(spec.name for spec in new):
            return False
        for name, spec in wanted.items():
            if self._running[name].spec != spec:
                await self._running[name].stop()
                self._start(spec, tasks)
                if not await self._all_ready([name]):
                    return False
        for name in self._running.keys() - wanted:
            await self._running[name].stop()
            del self._running[name]
        return True

    async def _all_ready(self, names: Iterable[str]) -> bool:
        """Wait for the processes; False where the wait is no longer of use."""
        waiting = list(names)
        while not all(self._running[name].ready for name in waiting):
            if self._ended.is_set() or read(self._folder.desired, Desired) != self._desired:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    def _start(self, spec: ProcessSpec, tasks: asyncio.TaskGroup) -> None:
        process = Supervised(spec, self._folder, self._save)
        self._running[spec.name] = process
        process.start(tasks)

    def _save(self) -> None:
        processes = tuple(process.state for process in self._running.values())
        write(
            self._folder.state,
            SystemState(supervisor=self._identity, applied=self._applied, processes=processes),
        )


async def _main(folder: EnvironmentFolder) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await Supervisor(folder, ended).run()
    folder.state.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(_main(EnvironmentFolder(Path(sys.argv[1]))))
