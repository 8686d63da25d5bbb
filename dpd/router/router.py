"""Put one router together, run it, and drain it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from aiohttp import web

from dpd.router.breaker import Breaker
from dpd.router.config import Lmcache, RouterConfig
from dpd.router.discovery import build_source
from dpd.router.failure import draining
from dpd.router.health import HealthChecks
from dpd.router.lmcache import LmcacheTransport
from dpd.router.metrics import Metrics
from dpd.router.nixl import NixlTransport
from dpd.router.notifications import NotificationSink
from dpd.router.pool import Pool, Room
from dpd.router.server import Server
from dpd.router.services import Services
from dpd.router.strategies import build_strategy
from dpd.router.traces import OpenTelemetry, PassOn, Tracer
from dpd.router.upstream import Upstream
from dpd.router.worker import Endpoint, Role

_log = logging.getLogger("dpd.router")
_CLOSE_S = 1.0


class Router:
    """Serve one configuration. An async context manager; ``port`` is where it listens.

    Entering raises OSError or zmq.ZMQError where an address is taken, ImportError where traces are asked
    for and their packages are missing.
    """

    def __init__(self, config: RouterConfig) -> None:
        self.config = config
        self.port = 0
        self.notify_port = 0

    async def __aenter__(self) -> Router:
        self._stack = contextlib.AsyncExitStack()
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        config, stack = self.config, self._stack
        tracer = _tracer(config)
        stack.callback(tracer.close)
        prefill, decode = (Pool(role, _room(config, role), _breakers(config)) for role in Role)
        upstream = Upstream(config.limits.connect_timeout_s)
        stack.push_async_callback(upstream.close)
        strategy = build_strategy(config)
        stack.push_async_callback(strategy.close)
        transport = self._lmcache(config.lmcache) if config.lmcache else NixlTransport()
        metrics = Metrics(prefill, decode)
        self.services = Services(config, prefill, decode, strategy, transport, upstream, metrics, tracer)
        checks = HealthChecks(config.workers, upstream, strategy)
        stack.push_async_callback(checks.close)
        pools = {Role.PREFILL: prefill, Role.DECODE: decode}

        def publish(role: Role, endpoints: frozenset[Endpoint]) -> None:
            came, left = pools[role].update(endpoints)
            checks.follow(pools[role], came, left)

        self._background(build_source(config).run(publish))
        self.server = Server(self.services)
        await self._listen()

    def _lmcache(self, lmcache: Lmcache) -> LmcacheTransport:
        sink = NotificationSink()
        self._stack.callback(sink.close)
        self.notify_port = sink.bind(lmcache.notify_host, lmcache.notify_port)
        self._background(sink.run())
        return LmcacheTransport(lmcache, sink)

    def _background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(_report)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def _listen(self) -> None:
        listen = self.config.listen
        runner = web.AppRunner(
            self.server.application(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=_CLOSE_S,
            # vLLM allows headers of this size too; a session id or a trace may be long.
            max_line_size=2**16,
            max_field_size=2**16,
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, listen.host, listen.port, backlog=1024)
        await site.start()
        self.port = runner.addresses[0][1]
        _log.info("listening", extra={"host": listen.host, "port": self.port})

    async def drain(self) -> None:
        """Refuse new requests, and wait for those in flight, at most ``drain_timeout_s``.

        Those that are not finished then are told so, and may free within another second what they hold.
        """
        self.server.draining = True
        running = self.server.exchanges
        _log.info("draining", extra={"in_flight": len(running)})
        await _wait(running, self.config.limits.drain_timeout_s)
        if running:
            _log.warning("not finished in time", extra={"in_flight": len(running)})
        for exchange in tuple(running.values()):
            exchange.end(draining())
        await _wait(running, _CLOSE_S)

    async def __aexit__(self, *_: object) -> None:
        for exchange in tuple(self.server.exchanges):
            exchange.cancel()
        await asyncio.gather(*self.server.exchanges, return_exceptions=True)
        await self._stack.aclose()


async def _wait(tasks: Iterable[asyncio.Task[None]], timeout_s: float) -> None:
    waiting = tuple(tasks)
    if waiting:
        await asyncio.wait(waiting, timeout=timeout_s)


def _room(config: RouterConfig, role: Role) -> Room:
    limits, lmcache = config.limits, config.lmcache
    slots = limits.prefill_concurrency if role is Role.PREFILL else limits.decode_concurrency
    pages = lmcache.usable_pages if lmcache is not None and role is Role.DECODE else None
    return Room(slots, pages, limits.queue_length, limits.queue_timeout_s)


def _breakers(config: RouterConfig) -> Callable[[], Breaker]:
    workers = config.workers
    return lambda: Breaker(workers.failures_to_eject, workers.ejection_s)


def _tracer(config: RouterConfig) -> Tracer:
    endpoint = config.telemetry.otlp_endpoint
    return OpenTelemetry(endpoint) if endpoint else PassOn()


def _report(task: asyncio.Task[None]) -> None:
    """Say in the log that something that should run for ever ended."""
    if not task.cancelled() and task.exception() is not None:
        _log.error("a background task failed", exc_info=task.exception())
