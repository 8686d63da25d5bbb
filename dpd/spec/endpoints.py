"""Which interface endpoints a closed network has."""

from __future__ import annotations

from typing import Final

from dpd.facts import Facts
from dpd.network_facts import EndpointPolicy
from dpd.spec.environment import Environment

ENDPOINT_ZONES: Final = 2
"""Zones in which each endpoint has an interface: those of the control plane."""


def interface_services(
    environment: Environment, facts: Facts, *, file_systems: bool
) -> dict[str, EndpointPolicy]:
    """Return the services with their policies, those of the facts last.

    A service of which the facts know nothing lets principals of this account through.
    """
    prometheus = environment.observability.prometheus_url is not None
    wanted = {
        "always": True,
        "models": bool(environment.models),
        "prometheus": prometheus,
        "fsx": file_systems,
    }
    network, known = environment.network, facts.endpoints
    needed = [name for name, row in known.items() if wanted[row.when]]
    return {
        name: known[name].policy if name in known else "caller"
        for name in dict.fromkeys((*network.further_endpoints, *needed))
        if name not in network.omitted_endpoints
    }
