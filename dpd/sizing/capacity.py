"""Whether nodes, GPUs, addresses and pods fit where the configuration puts them."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.spec.environment import Environment, Group


@dataclass(frozen=True, slots=True)
class SubnetUse:
    """Compare the addresses of the GPU subnet with what its nodes take."""

    needed: int
    available: int


def groups(environment: Environment) -> dict[str, Group]:
    """Return the instance groups by name, system first."""
    named = environment.hyperpod.groups
    return {"system": named.system, "prefill": named.prefill, "decode": named.decode}


def gpu_subnet_use(environment: Environment, facts: Facts) -> SubnetUse | None:
    """Return the address use of the GPU subnet; None where an instance type is not known.

    Every group counts, because HyperPod puts all of them into the one subnet. AWS reserves five
    addresses of each subnet.
    """
    needed = 0
    for group in groups(environment).values():
        instance = facts.instances.get(group.instance_type)
        if instance is None:
            return None
        needed += group.count * instance.addresses_per_node
    reserved = int(facts.constant("subnet_reserved_addresses"))
    return SubnetUse(needed, environment.network.gpu_subnet_cidr.num_addresses - reserved)


def largest_prefix(addresses: int) -> int:
    """Return the longest prefix length whose subnet holds ``addresses``."""
    prefix = 28
    while 2 ** (32 - prefix) < addresses and prefix > 16:
        prefix -= 1
    return prefix
