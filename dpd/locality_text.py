"""Say what keeps prefill and decode close to each other, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

from dpd.spec.deployment import ROLE_LABEL, Deployment
from dpd.spec.environment import Environment


def locality_lines(environment: Environment, deployments: Sequence[Deployment]) -> list[str]:
    """Return lines for people; a placement group is named only to say that no node joins it."""
    lines = [f"Locality: one zone, {environment.gpu_zone_id}, for every GPU node; pools by {ROLE_LABEL}"]
    for deployment in deployments:
        topology, name = deployment.model.dpd.topology, deployment.model.name
        if deployment.disaggregated and not topology.same_zone:
            lines.append(f"  {name}: the operator is not asked to keep both roles in one zone")
        lines += [
            f"  {name}: {role.name} on nodes with {key}={value}"
            for role in deployment.roles
            for key, value in role.node_selector.items()
            if "network-node-layer" in key
        ]
        if topology.placement_group:
            lines.append(
                f"  {name}: placement group {topology.placement_group} is passed on, to no known effect"
            )
    group = environment.network.placement_group
    if group != "none":
        named = (
            "The placement group that the network stack makes"
            if group == "create"
            else f"Placement group {group}"
        )
        lines.append(f"{named} is for EC2 instances of your own: HyperPod nodes do not join it")
    return lines
