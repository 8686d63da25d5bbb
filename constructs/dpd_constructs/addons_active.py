"""The wait for EKS add-ons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from dpd_constructs.reasons import wildcard
from dpd_constructs.waiter import Waiter, WaiterProps

_TIMEOUT_S: Final = 15 * 60


@dataclass(frozen=True)
class AddonsActiveProps:
    """Say which add-ons of which cluster are waited for; ``versions`` is what each is pinned to."""

    cluster: eks.ICluster
    versions: Mapping[str, str]


class AddonsActive(Construct):
    """Wait until each add-on is ACTIVE; a change of a version waits again.

    ``resource`` is what waits, and depends on what declares them.
    """

    def __init__(self, scope: Construct, construct_id: str, props: AddonsActiveProps) -> None:
        super().__init__(scope, construct_id)
        stack, cluster = Stack.of(self), props.cluster.cluster_name
        addons = f"arn:{stack.partition}:eks:{stack.region}:{stack.account}:addon/{cluster}"
        waiter = Waiter(
            self,
            "Waiter",
            WaiterProps(
                handler="addons_active.handler",
                statements=[
                    wildcard(
                        "ReadAddons",
                        "EKS puts an id of its own behind the name of an add-on.",
                        actions=["eks:DescribeAddon"],
                        resources=[f"{addons}/{name}/*" for name in props.versions],
                    )
                ],
                timeout_s=_TIMEOUT_S,
            ),
        )
        self.resource: cdk.CustomResource = waiter.wait(
            waiter,
            "Resource",
            resource_type="Custom::EksAddonsActive",
            properties={
                "ClusterName": cluster,
                "Addons": list(props.versions),
                # Read by nobody: without a change CloudFormation would not ask again.
                "Versions": list(props.versions.values()),
            },
        )
