"""The service quotas that an environment needs, by the names under which AWS lists them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.sizing.capacity import groups
from dpd.spec.environment import Environment

# One of the two quotas that count nodes lacks the word "of" in its name.
_COUNTS_NODES = re.compile(r"number (of )?instances", re.IGNORECASE)
_COUNTS_SPOT = re.compile(r"number of spot instances", re.IGNORECASE)
_VOLUME_SIZE = re.compile(r"size of EBS volume", re.IGNORECASE)
_SUFFIXES = {"on_demand": "for cluster usage", "spot": "for cluster spot instance usage"}


@dataclass(frozen=True, slots=True)
class QuotaNeed:
    """Name a service quota and the least value that the environment needs."""

    service: str
    name: str
    needed: int
    default: float | None


def quota_needs(environment: Environment, facts: Facts) -> tuple[QuotaNeed, ...]:
    """Return the quotas per instance type and capacity, those of all nodes, and that of volumes.

    A group with fallback types may take all of its nodes from any of them, so each needs the room.
    """
    by_name: Counter[str] = Counter()
    for group in groups(environment).values():
        for instance_type in group.instance_types:
            by_name[f"{instance_type} {_SUFFIXES[group.capacity]}"] += group.count
    rows = {row.quota_name: row for row in facts.quotas.values()}
    needs = [
        QuotaNeed("sagemaker", name, needed, rows[name].default if name in rows else None)
        for name, needed in by_name.items()
    ]
    needs += [
        QuotaNeed(row.service, row.quota_name, needed, row.default)
        for row in facts.quotas.values()
        if row.instance_type is None and (needed := _of_all_nodes(row.quota_name, environment))
    ]
    return tuple(sorted(needs, key=lambda need: (not need.name.startswith("ml."), need.name)))


def _of_all_nodes(quota_name: str, environment: Environment) -> int:
    """Return how much of one quota that is about no single type the environment takes; 0: nothing."""
    nodes = groups(environment).values()
    if _COUNTS_SPOT.search(quota_name):
        return sum(group.count for group in nodes if group.capacity == "spot")
    if _COUNTS_NODES.search(quota_name):
        return sum(group.count for group in nodes)
    if _VOLUME_SIZE.search(quota_name):
        return max(group.secondary_volume_gb or 0 for group in nodes)
    return 0
