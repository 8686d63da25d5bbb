"""Whether nodes, GPUs, addresses and pods fit where the configuration puts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from dpd.facts import Facts
from dpd.spec.deployment import RoleDeployment
from dpd.spec.environment import Environment
from dpd.spec.instance_group import Group


@dataclass(frozen=True, slots=True)
class SubnetUse:
    """Compare the addresses of a subnet with what its nodes take."""

    needed: int
    available: int


def groups(environment: Environment) -> dict[str, Group]:
    """Return the instance groups by name, system first."""
    named = environment.hyperpod.groups
    return {"system": named.system, "prefill": named.prefill, "decode": named.decode}


def gpu_subnet_groups(environment: Environment) -> dict[str, Group]:
    """Return the groups whose nodes lie in the GPU subnet: all, but for a system group in another zone."""
    apart = environment.system_zone_id != environment.gpu_zone_id
    return {name: group for name, group in groups(environment).items() if name != "system" or not apart}


def scheduled_groups(environment: Environment) -> dict[str, Group]:
    """Return the groups that a schedule scales: GPU groups with nodes that nobody has paid for in advance."""
    return {
        name: group
        for name, group in groups(environment).items()
        if name != "system" and group.count and not group.training_plan_arn
    }


def gpu_subnet_use(environment: Environment, facts: Facts) -> SubnetUse | None:
    """Return the address use of the GPU subnet; None where an instance type is not known."""
    used = list(gpu_subnet_groups(environment).values())
    return _subnet_use(used, environment.network.gpu_subnet_cidr, facts)


def system_subnet_use(environment: Environment, facts: Facts) -> SubnetUse | None:
    """Return the address use of the system group's own subnet; None without one, or for unknown types."""
    cidr = environment.network.system_subnet_cidr
    return _subnet_use([environment.hyperpod.groups.system], cidr, facts) if cidr else None


def _subnet_use(used: Sequence[Group], cidr: IPv4Network, facts: Facts) -> SubnetUse | None:
    """Add up what the nodes take at most; AWS reserves five addresses of each subnet."""
    needed = 0
    for group in used:
        rows = [facts.instances.get(name) for name in group.instance_types]
        addresses = [row.addresses_per_node for row in rows if row is not None]
        if len(addresses) < len(rows):
            return None
        needed += group.count * max(addresses)
    reserved = int(facts.constant("subnet_reserved_addresses"))
    return SubnetUse(needed, cidr.num_addresses - reserved)


def pods_of_group(role: RoleDeployment) -> int | None:
    """Return how many whole pods of ``role`` the nodes of its group hold.

    None where other rules speak: an instance type that cannot run DPD, a pod larger than a node, or a
    group of no nodes, which is a dry bring-up.
    """
    instance = role.instance
    if instance is None or not instance.supports_dpd or role.group.count == 0:
        return None
    return instance.gpu_count // role.resources.gpus * role.group.count or None


def largest_prefix(addresses: int) -> int | None:
    """Return the longest prefix length whose subnet holds ``addresses``; None beyond a /16, AWS's largest."""
    return next((prefix for prefix in range(28, 15, -1) if 2 ** (32 - prefix) >= addresses), None)
