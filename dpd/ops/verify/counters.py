"""Prometheus counters of a router and its workers, and how far they rose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

REQUESTS: Final = "dpd_router_requests_total"
PROMPT_TOKENS: Final = "vllm:prompt_tokens_by_source_total"
ENDED: Final = "vllm:request_success_total"
TRANSFERS: Final = "vllm:nixl_xfer_time_seconds_count"

Sample = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Counters:
    """Hold samples by name and labels; one that was never exported counts as 0."""

    samples: Mapping[Sample, float]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all samples of this name that have these labels."""
        wanted = labels.items()
        return sum(value for (key, has), value in self.samples.items() if key == name and wanted <= has)

    def since(self, before: Counters) -> Counters:
        """Return how far each sample rose."""
        rises = {sample: value - before.samples.get(sample, 0.0) for sample, value in self.samples.items()}
        return Counters(rises)


def parse_counters(text: str) -> Counters:
    """Read the text of `/metrics`."""
    families = text_string_to_metric_families(text)
    return Counters(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
    )


def add(several: Iterable[Counters]) -> Counters:
    """Return the sums over workers."""
    sums: dict[Sample, float] = {}
    for counters in several:
        for sample, value in counters.samples.items():
            sums[sample] = sums.get(sample, 0.0) + value
    return Counters(sums)
