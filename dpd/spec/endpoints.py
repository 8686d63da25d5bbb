"""Which interface endpoints a closed network has."""

from __future__ import annotations

from typing import Final

from dpd.facts import Facts
from dpd.network_facts import EndpointFact
from dpd.spec.environment import Environment

ENDPOINT_ZONES: Final = 2
"""Zones in which each endpoint has an interface: those of the control plane."""


def interface_services(
    environment: Environment, facts: Facts, *, file_systems: bool
) -> dict[str, EndpointFact | None]:
    """Return the services by name, those of the facts last; None for one that only the environment names."""
    prometheus = environment.observability.prometheus_url is not None
    wanted = {"always": True, "prometheus": prometheus, "fsx": file_systems}
    network = environment.network
    known = {name: row for name, row in facts.endpoints.items() if wanted[row.when]}
    further = dict.fromkeys(network.further_endpoints)
    return {name: row for name, row in {**further, **known}.items() if name not in network.omitted_endpoints}
