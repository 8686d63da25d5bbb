"""CAP: a system group in a zone of its own, away from the GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.sizing.capacity import largest_prefix, system_subnet_use

_PREREQUISITES = "docs.aws.amazon.com: sagemaker-hyperpod-prerequisites"


@environment_rule(
    "CAP012",
    Severity.ERROR,
    Doc(
        title="System group in another zone, half configured",
        symptom="The group lands in the GPU zone after all, or load balancers never find the router (P-09).",
        cause="Nodes need a subnet in their zone, and load balancers reach only zones that they stand in.",
        fix="Name zone and range together, and let the zone be one of the control plane's two.",
        source=_PREREQUISITES,
        bad="hyperpod: {groups: {system: {zone_id: usw2-az2}}}",
        good="network: {system_subnet_cidr: 10.2.0.0/20}\nhyperpod: {groups: {system: {zone_id: usw2-az2}}}",
    ),
)
def system_zone_complete(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a system zone without a range, a range without a zone, and a zone beside the control plane."""
    environment = context.environment
    zone_id, network = environment.system_zone_id, environment.network
    apart = zone_id != environment.gpu_zone_id
    zone_path = ("hyperpod", "groups", "system", "zone_id")
    range_path = ("network", "system_subnet_cidr")
    if apart and network.existing is not None:
        yield _hit(zone_path, "no stack makes a subnet in an existing network", zone_id, "leave it out")
    elif apart and network.system_subnet_cidr is None:
        message = f"zone {zone_id} has no subnet for nodes"
        yield _hit(zone_path, message, zone_id, "add network.system_subnet_cidr")
    elif not apart and network.system_subnet_cidr is not None:
        message = "the system group lies in the GPU zone and uses the GPU subnet"
        yield _hit(
            range_path, message, network.system_subnet_cidr, "leave it out, or set the group's zone_id"
        )
    chosen = network.control_plane_zone_ids
    row = context.facts.regions.get(environment.region)
    if apart and chosen and zone_id not in chosen and len(chosen) > 1:
        message = f"the two control-plane zones are others than {zone_id}, so load balancers are, too"
        yield _hit(zone_path, message, zone_id, f"use one of {', '.join(chosen)}")
    elif apart and row is not None and zone_id not in row.control_plane_zone_ids:
        message = f"EKS and load balancers of {environment.region} cannot use zone {zone_id}"
        yield _hit(zone_path, message, zone_id, f"use one of {', '.join(row.control_plane_zone_ids)}")


@environment_rule(
    "CAP016",
    Severity.ERROR,
    Doc(
        title="Range of the system subnet cannot work",
        symptom="CloudFormation rejects the range, or nodes fail to join for want of addresses.",
        cause="It overlaps another range of the VPC, or holds fewer addresses than the group's nodes take.",
        fix="Choose a free range of the size in the message.",
        source=_PREREQUISITES,
        bad="network: {system_subnet_cidr: 10.0.0.0/20}  # inside vpc_cidr 10.0.0.0/16",
        good="network: {system_subnet_cidr: 10.2.0.0/20}",
    ),
)
def system_range(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a range that meets one of the other two, or that is too small."""
    network = context.environment.network
    cidr = network.system_subnet_cidr
    if cidr is None:
        return
    path = ("network", "system_subnet_cidr")
    for name, other in (("vpc_cidr", network.vpc_cidr), ("gpu_subnet_cidr", network.gpu_subnet_cidr)):
        if cidr.overlaps(other):
            yield _hit(path, f"{cidr} overlaps {name} {other}", cidr, "choose a range outside both")
            return
    use = system_subnet_use(context.environment, context.facts)
    if use is not None and use.needed > use.available:
        prefix = largest_prefix(use.needed + int(context.facts.constant("subnet_reserved_addresses")))
        message = f"the system nodes need {use.needed} addresses, {cidr} has {use.available}"
        yield _hit(path, message, cidr, f"use a /{prefix} or wider" if prefix else "take fewer nodes")


def _hit(path: tuple[str, ...], message: str, got: object, fix: str) -> Hit:
    return Hit(path=path, message=message, got=str(got), fix=fix, owner="environment")
