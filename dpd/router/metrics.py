"""What Prometheus reads. Histograms, so that quantiles can be computed over routers and over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from dpd.router.pool import Length, Pool
from dpd.router.timeline import Timeline
from dpd.router.worker import Worker

# From a cached short prompt on a laptop to the longest prompt of a large model.
_LATENCY_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
# Around the tens of milliseconds that people notice between two tokens.
_ITL_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5)
_TOKENS: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say how one request ended, for its counters, log line and trace."""

    path: str
    reason: str
    status: int
    error: str
    prompt_tokens: int
    prefiller: str
    decoder: str


class ItlCounts:
    """Count the gaps between a stream's chunks by bucket, at the price of one bisection a chunk."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_ITL_S) + 1)
        self.sum_s = 0.0

    def add(self, gap_s: float) -> None:
        """Count one gap."""
        self.counts[bisect_left(_ITL_S, gap_s)] += 1
        self.sum_s += gap_s


class Metrics:
    """Record what happens. Names begin with `dpd_router_`; seconds and tokens are the only units."""

    def __init__(self, prefill: Pool, decode: Pool) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests by path and outcome.", "path", "reason", "code")
        self._rejected = self._counter("rejected", "Requests refused before any worker saw them.", "code")
        self._failures = self._counter("worker_failures", "Failed legs.", "role", "worker", "kind")
        self._released = self._counter("releases", "Decode legs that freed an unread KV cache.", "outcome")
        self._tokens = self._histogram("prompt_tokens", "Prompt tokens as routed.", _TOKENS, "path")
        self._ttft = self._histogram("ttft_seconds", "Arrival to the first byte.", _LATENCY_S, "path")
        self._total = self._histogram("request_seconds", "Arrival to the last byte.", _LATENCY_S, "path")
        self._queue = self._histogram("queue_seconds", "Arrival to a worker's slot.", _LATENCY_S, "path")
        self._prefill = self._histogram("prefill_seconds", "Duration of the prefill leg.", _LATENCY_S)
        self._handoff = self._histogram(
            "handoff_seconds", "End of the prefill leg to the decoder's first byte.", _LATENCY_S
        )
        self._itl = _ItlCollector()
        self.registry.register(self._itl)
        self.registry.register(_WorkerCollector((prefill, decode)))

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"dpd_router_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(f"dpd_router_{name}", text, labels, buckets=tuple(buckets), registry=self.registry)

    def worker_failed(self, worker: Worker, kind: str) -> None:
        """Count a failed leg."""
        self._failures.labels(worker.role, worker.name, kind).inc()

    def released(self, outcome: str) -> None:
        """Count a decode leg that was run to free pages or blocks."""
        self._released.labels(outcome).inc()

    def rejected(self, code: str) -> None:
        """Count a request that no worker saw."""
        self._rejected.labels(code).inc()

    def finished(self, outcome: Outcome, timeline: Timeline, itl: ItlCounts) -> None:
        """Record one request that a path was chosen for."""
        path, moments = outcome.path, timeline.moments_s
        self._requests.labels(path, outcome.reason, str(outcome.status)).inc()
        self._tokens.labels(path).observe(outcome.prompt_tokens)
        self._total.labels(path).observe(moments["ended"])
        if "first_byte" in moments:
            self._ttft.labels(path).observe(moments["first_byte"])
        if "admitted" in moments:
            self._queue.labels(path).observe(moments["admitted"])
        for histogram, begin, end in (
            (self._prefill, "prefill_start", "prefilled"),
            (self._handoff, "prefilled", "first_byte"),
        ):
            seconds = timeline.between_s(begin, end)
            if seconds is not None and path == "disaggregated":
                histogram.observe(seconds)
        self._itl.add(itl)


class _ItlCollector(Collector):
    """Sum the gaps of all ended streams: a Histogram would cost more at each chunk than the chunk itself."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_ITL_S) + 1)
        self._sum_s = 0.0

    def add(self, itl: ItlCounts) -> None:
        self._counts = [mine + more for mine, more in zip(self._counts, itl.counts, strict=True)]
        self._sum_s += itl.sum_s

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily("dpd_router_itl_seconds", "Gaps between the chunks of a stream.")
        bounds = (*map(str, _ITL_S), "+Inf")
        family.add_metric([], list(zip(bounds, accumulate(self._counts), strict=True)), self._sum_s)
        yield family


class _WorkerCollector(Collector):
    """Read the workers' state when asked, so that nothing needs to keep gauges in step with it."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        self._pools = pools

    def collect(self) -> Iterable[GaugeMetricFamily]:
        labels = ("role", "worker")
        up = GaugeMetricFamily("dpd_router_worker_up", "1: requests may use it.", labels=labels)
        running = GaugeMetricFamily("dpd_router_worker_running", "Requests at a worker.", labels=labels)
        pages = GaugeMetricFamily("dpd_router_worker_pages", "KV pages at a worker.", labels=labels)
        waiting = GaugeMetricFamily(
            "dpd_router_waiting", "Requests that wait for a worker.", labels=("role", "length")
        )
        for pool in self._pools:
            usable = set(pool.usable())
            for worker in pool.workers.values():
                row = (worker.role, worker.name)
                up.add_metric(row, worker in usable)
                running.add_metric(row, worker.running)
                pages.add_metric(row, worker.pages)
            for length in Length:
                waiting.add_metric((pool.role, length), pool.waiting(length))
        yield from (up, running, pages, waiting)
