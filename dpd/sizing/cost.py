"""What an environment costs, from the price facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpd.facts import Facts
from dpd.sizing.capacity import groups
from dpd.spec.endpoints import ENDPOINT_ZONES, interface_services
from dpd.spec.environment import Environment
from dpd.spec.instance_group import Group

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
    """Price the nodes, the control plane and the ways out of the network; what exists is paid already."""
    lines = [_nodes(name, group, environment.region, facts) for name, group in groups(environment).items()]
    region, network = environment.region, environment.network
    if environment.kubernetes.existing is None:
        lines.append(_line("EKS control plane", "eks-control-plane", 1, region, facts))
    if network.existing is None and network.closed:
        services = interface_services(environment, facts, file_systems=False)
        lines.append(
            _line("interface endpoints", "interface-endpoint", len(services) * ENDPOINT_ZONES, region, facts)
        )
    elif network.existing is None:
        lines.append(_line("NAT gateway", "nat-gateway", 1, region, facts))
    return Cost(tuple(lines), facts.constant("hours_per_month"))


def _nodes(name: str, group: Group, region: str, facts: Facts) -> CostLine:
    """Price a group at its preferred type, on demand: Spot costs less, at a price that moves."""
    line = _line(f"{name} nodes", group.instance_type, group.count, region, facts)
    others = f"fallback {' or '.join(group.fallback_instance_types)}" if group.fallback_instance_types else ""
    spot = "on-demand price, Spot costs less" if group.capacity == "spot" else ""
    return replace(line, note=", ".join(note for note in (line.note, spot, others) if note))


def _line(name: str, what: str, count: int, region: str, facts: Facts) -> CostLine:
    price = facts.prices.get(f"{what}/{region}")
    note = ""
    if price is None:
        price = facts.prices.get(f"{what}/{_REFERENCE_REGION}")
        note = f"price of {_REFERENCE_REGION}" if price else "no price known"
    if price is not None and price.basis != "published":
        note = ", ".join(part for part in (note, price.basis) if part)
    return CostLine(name, what, count, price.usd_per_hour if price else None, note)
