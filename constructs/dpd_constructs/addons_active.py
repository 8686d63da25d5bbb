"""The wait for EKS add-ons."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Say which add-ons of which cluster are waited for."""

    cluster: eks.ICluster
    addons: Sequence[str]


class AddonsActive(Construct):
    """Wait until each add-on is ACTIVE; ``resource`` is what waits, and depends on what declares them."""

    def __init__(self, scope: Construct, construct_id: str, props: AddonsActiveProps) -> None:
        super().__init__(scope, construct_id)
        stack, cluster = Stack.of(self), props.cluster.cluster_name
        addons = f"arn:{stack.partition}:eks:{stack.region}:{stack.account}:addon/{cluster}"
        self.resource: cdk.CustomResource = Waiter(
            self,
            "Waiter",
            WaiterProps(
                handler="addons_active",
                resource_type="Custom::EksAddonsActive",
                properties={"ClusterName": cluster, "Addons": list(props.addons)},
                statements=[
                    wildcard(
                        "ReadAddons",
                        "EKS puts an id of its own behind the name of an add-on.",
                        actions=["eks:DescribeAddon"],
                        resources=[f"{addons}/{name}/*" for name in props.addons],
                    )
                ],
                timeout_s=_TIMEOUT_S,
            ),
        ).resource
