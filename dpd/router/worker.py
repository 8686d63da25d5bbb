"""One worker as the router sees it: its address, its load and whether it may be used."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from dpd.router.breaker import Breaker
from dpd.router.failure import WorkerFailure
from dpd.router.scope import Scope


class Role(StrEnum):
    """What a worker does."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Locate one worker. Two endpoints with the same fields are the same worker."""

    url: str
    receiver_host: str = ""
    receiver_init_ports: tuple[int, ...] = ()
    receiver_alloc_ports: tuple[int, ...] = ()
    kv_events: str = ""
    kv_events_replay: str = ""

    @property
    def name(self) -> str:
        """Return `host:port`, which logs, metrics and response headers show."""
        return urlsplit(self.url).netloc


@dataclass(slots=True, eq=False)
class Worker:
    """Hold the state of one worker.

    ``running`` counts requests that hold one of its slots. ``pages`` counts KV pages: of the PD buffer for
    an LMCache decoder, else of the prompts that it works on. A worker that discovery dropped is ``gone``:
    it finishes what it has.
    """

    role: Role
    endpoint: Endpoint
    breaker: Breaker
    running: int = 0
    pages: int = 0
    healthy: bool = False
    checked: bool = False
    gone: bool = False
    failed_checks: int = 0
    why: str = ""
    """What its last health check found wrong."""
    _scopes: set[Scope] = field(default_factory=set[Scope])

    @property
    def name(self) -> str:
        """Return `host:port`."""
        return self.endpoint.name

    @property
    def url(self) -> str:
        """Return the base URL, without a slash at its end."""
        return self.endpoint.url

    @property
    def load(self) -> int:
        """Return what a new request would stand beside: KV pages and running requests."""
        return self.pages + self.running

    @contextmanager
    def watched(self) -> Generator[None]:
        """Raise WorkerFailure (`lost`) out of the block as soon as the worker is known to be down."""
        with Scope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def lose(self) -> None:
        """Note that the worker is down, and end what waits for it."""
        self.healthy = False
        for scope in tuple(self._scopes):
            scope.end(WorkerFailure(self.name, "lost", "failed its health checks", 503))
