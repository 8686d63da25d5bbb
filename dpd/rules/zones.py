"""CAP: zones, which every part of a cluster must agree on."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import (
    Doc,
    EnvironmentContext,
    Hit,
    ModelContext,
    environment_rule,
    in_models_too,
)
from dpd.sizing.capacity import groups


@environment_rule(
    "CAP001",
    Severity.ERROR,
    Doc(
        title="Zone ids differ",
        symptom="A group lands in another zone, and KV cache crosses zones or EFA does not connect (P-09).",
        cause="Group, subnet and training plan name different zones; EFA traffic stays inside one.",
        fix="Use one zone id everywhere.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-prerequisites",
        bad="gpu_zone_id: usw2-az1\nhyperpod: {groups: {decode: {zone_id: usw2-az2}}}",
        good="gpu_zone_id: usw2-az1",
    ),
)
def zones_agree(context: EnvironmentContext) -> Iterable[Hit]:
    """Report GPU groups and training plans outside the GPU zone; one hit names every zone."""
    environment = context.environment
    named = {"gpu_zone_id": environment.gpu_zone_id}
    for name in ("prefill", "decode"):
        group = groups(environment)[name]
        for key, zone_id in (
            ("zone_id", group.zone_id),
            ("training_plan_zone_id", group.training_plan_zone_id),
        ):
            if zone_id is not None:
                named[f"hyperpod.groups.{name}.{key}"] = zone_id
    wrong = [path for path, zone_id in named.items() if zone_id != environment.gpu_zone_id]
    if wrong:
        yield Hit(
            path=tuple(wrong[0].split(".")),
            message="zone ids differ: " + ", ".join(f"{path} = {zone_id}" for path, zone_id in named.items()),
            got=named,
            allowed=environment.gpu_zone_id,
            fix="use one zone id everywhere",
            owner="environment",
        )


@in_models_too("CAP001")
def topology_zone(context: ModelContext) -> Iterable[Hit]:
    """Report a topology zone other than the zone of the nodes."""
    wanted = context.deployment.model.dpd.topology.zone_id
    zone_id = context.deployment.environment.gpu_zone_id
    if wanted is not None and wanted != zone_id:
        yield Hit(
            path=("dpd", "topology", "zone_id"),
            message=f"zone ids differ: dpd.topology.zone_id = {wanted}, gpu_zone_id = {zone_id}",
            got=wanted,
            allowed=zone_id,
            fix=f"leave it out or write {zone_id}",
        )


@environment_rule(
    "CAP008",
    Severity.ERROR,
    Doc(
        title="Zone of another region",
        symptom="CloudFormation fails on the first subnet, after the VPC exists.",
        cause="The zone id does not belong to the environment's region, or EKS has no control plane there.",
        fix="Use a zone id that the message lists.",
        source="docs.aws.amazon.com: eks network-reqs; ram az-ids",
        bad="region: us-west-2\ngpu_zone_id: use1-az6",
        good="region: us-west-2\ngpu_zone_id: usw2-az1",
    ),
)
def zone_of_region(context: EnvironmentContext) -> Iterable[Hit]:
    """Report zone ids that the region does not have, and control-plane zones that EKS refuses."""
    environment = context.environment
    row = context.facts.regions.get(environment.region)
    if row is None:
        return
    # Local zones (usw2-lax1-az1) hang on a region but are in no list of its zones.
    parents = {zone_id.partition("-")[0] for zone_id in row.zone_ids}
    local = environment.gpu_zone_id.count("-") > 1 and environment.gpu_zone_id.partition("-")[0] in parents
    if environment.gpu_zone_id not in row.zone_ids and not local:
        yield _zone_hit(("gpu_zone_id",), environment.gpu_zone_id, environment.region, row.zone_ids)
    chosen = environment.network.control_plane_zone_ids
    for index, zone_id in enumerate(chosen):
        if zone_id not in row.control_plane_zone_ids or zone_id in chosen[:index]:
            path = ("network", "control_plane_zone_ids", index)
            yield _zone_hit(path, zone_id, environment.region, row.control_plane_zone_ids)


def _zone_hit(path: tuple[str | int, ...], zone_id: str, region: str, allowed: tuple[str, ...]) -> Hit:
    return Hit(
        path=path,
        message=f"{zone_id} is not a usable zone id of {region}",
        got=zone_id,
        allowed=list(allowed),
        fix=f"use one of {', '.join(allowed)}",
        owner="environment",
    )
