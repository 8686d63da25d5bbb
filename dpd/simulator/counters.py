"""What a worker counts, and /metrics with vLLM 0.32's names for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")


@dataclass(slots=True)
class Counters:
    """Count since the start of the worker."""

    prompt_tokens: Counter[str] = field(default_factory=Counter[str])
    """By source."""
    generation_tokens: int = 0
    success: Counter[str] = field(default_factory=Counter[str])
    """By finish reason."""
    external_queries: int = 0
    """Prompt tokens for which a connector was asked."""
    external_hits: int = 0
    nixl_transfers: int = 0
    nixl_seconds: float = 0.0
    nixl_bytes: int = 0
    nixl_failed_transfers: int = 0
    nixl_expired: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Say what a worker holds at this moment: all zeros where nothing is in flight and nothing leaked."""

    running: int
    waiting: int
    usage: float
    held_requests: int
    held_blocks: int
    used_pages: tuple[int, ...]
    """LMCache decoder: per rank."""


class EngineCollector(Collector):
    """Give the counters of one worker to prometheus_client."""

    def __init__(self, counters: Counters, load: Load, model: str) -> None:
        self._counters = counters
        self._load = load
        self._engine = (model, "0")

    def collect(self) -> Iterable[Metric]:
        """Return one family per metric."""
        counters, load = self._counters, self._load
        yield self._gauge("vllm:num_requests_running", load.running)
        yield self._gauge("vllm:num_requests_waiting", load.waiting)
        yield self._gauge("vllm:kv_cache_usage_perc", load.usage)
        yield self._counter("vllm:prompt_tokens", sum(counters.prompt_tokens.values()))
        yield self._labelled("vllm:prompt_tokens_by_source", "source", counters.prompt_tokens, _SOURCES)
        yield self._counter("vllm:generation_tokens", counters.generation_tokens)
        yield self._labelled(
            "vllm:request_success", "finished_reason", counters.success, ("stop", "length", "abort")
        )
        yield self._counter("vllm:external_prefix_cache_queries", counters.external_queries)
        yield self._counter("vllm:external_prefix_cache_hits", counters.external_hits)
        yield self._sums("vllm:nixl_xfer_time_seconds", counters.nixl_transfers, counters.nixl_seconds)
        yield self._sums("vllm:nixl_bytes_transferred", counters.nixl_transfers, counters.nixl_bytes)
        yield self._counter("vllm:nixl_num_failed_transfers", counters.nixl_failed_transfers)
        yield self._counter("vllm:nixl_num_kv_expired_reqs", counters.nixl_expired)
        yield self._gauge("simulator:held_requests", load.held_requests)
        yield self._gauge("simulator:held_blocks", load.held_blocks)
        pages = GaugeMetricFamily("simulator:used_pages", "PD pages taken.", labels=["rank"])
        for rank, used in enumerate(load.used_pages):
            pages.add_metric([str(rank)], used)
        yield pages

    def _gauge(self, name: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, name, labels=["model_name", "engine"])
        family.add_metric(self._engine, value)
        return family

    def _counter(self, name: str, value: float) -> Metric:
        family = CounterMetricFamily(name, name, labels=["model_name", "engine"])
        family.add_metric(self._engine, value)
        return family

    def _labelled(self, name: str, label: str, values: Counter[str], known: Iterable[str]) -> Metric:
        family = CounterMetricFamily(name, name, labels=["model_name", "engine", label])
        for value in known:
            family.add_metric([*self._engine, value], values[value])
        return family

    def _sums(self, name: str, count: int, total: float) -> Metric:
        """Return a histogram without bounds: its count and its sum are what anybody reads."""
        family = HistogramMetricFamily(name, name, labels=["model_name", "engine"])
        family.add_metric(self._engine, buckets=[("+Inf", count)], sum_value=total)
        return family
