"""The cluster placement group of an environment, for EC2 instances of your own."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from dpd.spec.environment import Environment
from dpd.spec.names import placement_group_export


def placement_group_name(scope: Construct, environment: Environment) -> str | None:
    """Return the name of the placement group; `create` makes it and exports its name.

    Neither CloudFormation nor the API has a field by which HyperPod nodes could join it. A cluster
    group has no zone of its own either: its first instance decides, so start that one in the GPU zone.
    """
    wanted = environment.network.placement_group
    if wanted != "create":
        return None if wanted == "none" else wanted
    group = ec2.CfnPlacementGroup(scope, "PlacementGroup", strategy="cluster")
    cdk.CfnOutput(
        scope,
        "PlacementGroupName",
        value=group.ref,
        description=f"For EC2 instances in {environment.gpu_zone_id}; HyperPod nodes cannot join it",
        export_name=placement_group_export(environment.name),
    )
    return group.ref
