"""What every request of one router shares."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.router.config import RouterConfig
from dpd.router.metrics import Metrics
from dpd.router.pool import Pool, least_loaded
from dpd.router.strategies import Strategy
from dpd.router.traces import Tracer
from dpd.router.transport import Transport
from dpd.router.upstream import Upstream
from dpd.router.worker import Worker


@dataclass(frozen=True, slots=True)
class Services:
    """Hold the workers of both roles and the means to reach them."""

    config: RouterConfig
    prefill: Pool
    decode: Pool
    strategy: Strategy
    transport: Transport
    upstream: Upstream
    metrics: Metrics
    tracer: Tracer

    def any_decoder(self) -> Worker | None:
        """Return the least loaded decoder for a call that takes no slot."""
        usable = self.decode.usable()
        return least_loaded(usable) if usable else None
