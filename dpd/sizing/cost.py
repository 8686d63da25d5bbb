"""What an environment costs, from the price facts."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.sizing.capacity import groups
from dpd.spec.environment import Environment

_REFERENCE_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class CostLine:
    """Price one kind of resource; ``usd_per_hour`` is None where no price is known."""

    name: str
    what: str
    count: int
    unit_usd_per_hour: float | None
    note: str

    @property
    def usd_per_hour(self) -> float | None:
        """Return the price of all units together."""
        return None if self.unit_usd_per_hour is None else self.unit_usd_per_hour * self.count


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the priced lines of an environment."""

    lines: tuple[CostLine, ...]
    hours_per_month: float

    @property
    def usd_per_hour(self) -> float:
        """Return the sum of what has a price."""
        return sum(line.usd_per_hour or 0 for line in self.lines)

    @property
    def usd_per_month(self) -> float:
        """Return the sum for an average month."""
        return self.usd_per_hour * self.hours_per_month

    @property
    def complete(self) -> bool:
        """Tell whether every line has a price."""
        return all(line.usd_per_hour is not None for line in self.lines)


def cost(environment: Environment, facts: Facts) -> Cost:
    """Price the nodes, the control plane and the NAT gateway of an environment."""
    lines = [
        _line(f"{name} nodes", group.instance_type, group.count, environment.region, facts)
        for name, group in groups(environment).items()
    ]
    lines.append(_line("EKS control plane", "eks-control-plane", 1, environment.region, facts))
    if not environment.network.closed:
        lines.append(_line("NAT gateway", "nat-gateway", 1, environment.region, facts))
    return Cost(tuple(lines), facts.constant("hours_per_month"))


def _line(name: str, what: str, count: int, region: str, facts: Facts) -> CostLine:
    price = facts.prices.get(f"{what}/{region}")
    note = ""
    if price is None:
        price = facts.prices.get(f"{what}/{_REFERENCE_REGION}")
        note = f"price of {_REFERENCE_REGION}" if price else "no price known"
    if price is not None and price.basis != "published":
        note = ", ".join(part for part in (note, price.basis) if part)
    return CostLine(name, what, count, price.usd_per_hour if price else None, note)
