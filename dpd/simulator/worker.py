"""One simulated worker: its engine, its connector and its sockets, from start to end."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.connector import Connector
from dpd.simulator.counters import Counters, Load
from dpd.simulator.engine import Engine
from dpd.simulator.faults import FaultKind, Faults
from dpd.simulator.http_stream import reset
from dpd.simulator.lmcache_receiver import LmcacheReceiver
from dpd.simulator.lmcache_sender import LmcacheSender
from dpd.simulator.nixl import NixlConnector
from dpd.simulator.scheduler import Scheduler
from dpd.simulator.server import Server
from dpd.simulator.tasks import Tasks

_BACKLOG = 1024
"""Connections that wait to be accepted: more than any benchmark opens at once."""
_KEEPALIVE_S = 5.0
"""How long an idle connection stays open: vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE."""


class SimulatedWorker:
    """Serve from ``async with SimulatedWorker(config) as worker`` until the block ends.

    A worker that was killed stays away until ``start``, then under the same addresses and with a new
    identity, empty caches and counters at zero. Faults outlast that.
    """

    counters: Counters
    engine: Engine
    _connector: Connector

    def __init__(self, config: SimulatorConfig) -> None:
        self._config = config
        self._tasks = Tasks()
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self.faults = Faults(self._follow_faults)
        self.ended = asyncio.Event()
        """Set once the worker was stopped or killed, until its next start."""
        self._lifecycle = asyncio.Lock()

    @property
    def config(self) -> SimulatorConfig:
        """Return the configuration, after the first start with real ports in the place of 0."""
        return self._config

    @property
    def url(self) -> str:
        """Return the base URL, without a slash at its end."""
        return f"http://{self._config.host}:{self._config.port}"

    @property
    def load(self) -> Load:
        """Return what the worker holds at this moment, for tests of leaks."""
        return self.engine.load

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        await self._tasks.close()

    async def start(self) -> None:
        """Bind every socket. Raises OSError or zmq.ZMQError where an address is taken."""
        self._renew()
        self.ended.clear()
        server = Server(self._config, self.engine, self.counters, self.faults, self.kill)
        self._runner = web.AppRunner(
            server.application(),
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_KEEPALIVE_S,
            shutdown_timeout=0,
        )
        try:
            await self._runner.setup()
            await self._connector.start()
            await self._listen()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End as a process that is killed does: every connection is reset, everything is forgotten."""
        async with self._lifecycle:
            if self._runner is None:
                return
            runner, self._runner = self._runner, None
            self._close_listener()
            assert runner.server is not None  # noqa: S101 - set up
            for connection in runner.server.connections:
                reset(connection.transport)
            await self.engine.close()
            await self._connector.close()
            await runner.cleanup()
            self.ended.set()

    def kill(self) -> None:
        """Begin to ``stop``; ``ended`` is set when it is done."""
        self._tasks.start(self.stop())

    def _renew(self) -> None:
        config = self._config
        self.counters = Counters()
        scheduler = Scheduler(config.max_num_seqs, config.kv_blocks)
        self._connector = _connector(config, self.faults, self.counters, scheduler)
        self.engine = Engine(config, self.faults, self.counters, scheduler, self._connector)

    async def _listen(self) -> None:
        async with self._lifecycle:
            refused = self.faults.active(FaultKind.REFUSE_CONNECTIONS)
            if self._runner is None or self._listener is not None or refused:
                return
            assert self._runner.server is not None  # noqa: S101 - set up
            host, port = self._config.host, self._config.port
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._runner.server, host, port, backlog=_BACKLOG)
            port = self._listener.sockets[0].getsockname()[1]
            self._config = self._config.model_copy(update={"port": port, **self._connector.ports})

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _follow_faults(self) -> None:
        """Listen or not, as the faults say."""
        if self._runner is None:
            return
        refusal = self.faults.active(FaultKind.REFUSE_CONNECTIONS)
        if refusal is None:
            self._tasks.start(self._listen())
            return
        self._close_listener()
        if refusal.delay_s:
            loop = asyncio.get_running_loop()
            loop.call_later(refusal.delay_s, self.faults.clear, FaultKind.REFUSE_CONNECTIONS)


def _connector(
    config: SimulatorConfig, faults: Faults, counters: Counters, scheduler: Scheduler
) -> Connector:
    if config.role == "worker":
        return Connector()
    if config.transport == "nixl":
        return NixlConnector(config, faults, counters, scheduler)
    return (
        LmcacheSender(config, faults)
        if config.role == "prefill"
        else LmcacheReceiver(config, faults, counters)
    )
