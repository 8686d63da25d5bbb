"""A running system under load, and what a drill does to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from dpd.local.state import ProcessRole
from dpd.local.system import LocalSystem
from dpd.ops.drill.load import Load
from dpd.ops.verify.counters import parse_counters
from dpd.ops.verify.probe import NoAnswer, Probe

_POLL_S: Final = 0.2
_QUICK_POLL_S: Final = 0.005
"""Less than any hand-over takes."""
_HIT_S: Final = 60.0
_RECOVERY_S: Final = 300.0
_FAILURES: Final = "dpd_router_worker_failures_total"


class Missed(Exception):
    """Say what a drill waited for in vain."""


class NotRecovered(Exception):
    """Say what is still not well."""


@dataclass(slots=True)
class Scene:
    """Let a drill act on one system; ``struck`` is when it last did so."""

    system: LocalSystem
    probe: Probe
    load: Load
    struck: float = 0.0

    def strike(self, act: Callable[[str], None], name: str) -> None:
        """Do to a process what a method of the system does, such as ``system.kill``."""
        self.struck = time.monotonic()
        act(name)

    async def end(self, act: Callable[[str], None], name: str) -> None:
        """Do what ends a process, and wait until the supervisor has noticed; raises NotRecovered."""
        restarts = self.system.process(name).state.restarts
        self.strike(act, name)

        async def noticed() -> bool:
            return self.system.process(name).state.restarts > restarts

        await self._until(noticed, _RECOVERY_S, NotRecovered(f"nobody noticed that {name} has ended"))

    def name(self, role: ProcessRole) -> str:
        """Return the first process of a role."""
        return self.system.by_role(role)[0].name

    async def request_at(self, name: str) -> None:
        """Wait until the router has a request at a worker; raises Missed."""
        url = self.system.process(name).url

        async def busy() -> bool:
            return any(row["url"] == url and row["running"] for row in await self._rows())

        await self._until(busy, _HIT_S, Missed(f"{name} had no request within {_HIT_S:g} s"), _QUICK_POLL_S)

    async def taken_out(self, name: str) -> None:
        """Wait until the router no longer uses a worker; raises Missed."""

        async def unused() -> bool:
            return name in await self._unused()

        await self._until(unused, _HIT_S, Missed(f"the router went on using {name}"))

    async def recovered(self) -> float:
        """Wait until all processes are well and used; return the seconds it took; raises NotRecovered."""

        async def well() -> bool:
            return self.system.well and not await self._unused()

        waiting = NotRecovered(f"not everything is ready and used {_RECOVERY_S:g} s after the fault")
        await self._until(well, _RECOVERY_S, waiting)
        return time.monotonic() - self.struck

    async def failures(self, role: ProcessRole) -> float:
        """Return how many legs the router saw fail at workers of a role."""
        counters = parse_counters(await self.probe.text(f"{self.probe.target.router_url}/metrics"))
        return counters.total(_FAILURES, role=role)

    async def _unused(self) -> list[str]:
        try:
            used = {row["url"] for row in await self._rows() if row["usable"]}
        except NoAnswer:
            used = set[str]()
        return [worker.name for worker in self.probe.target.workers if worker.url not in used]

    async def _rows(self) -> list[dict[str, Any]]:
        return (await self.probe.state(f"{self.probe.target.router_url}/debug/workers"))["workers"]

    async def _until(
        self,
        condition: Callable[[], Awaitable[bool]],
        timeout_s: float,
        otherwise: Exception,
        poll_s: float = _POLL_S,
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not await condition():
            if time.monotonic() > deadline:
                raise otherwise
            await asyncio.sleep(poll_s)
