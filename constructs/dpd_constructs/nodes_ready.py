"""The wait for the nodes of a HyperPod cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aws_cdk import aws_iam as iam
from constructs import Construct

from dpd.spec.environment import HyperPod
from dpd_constructs.instance_groups import named_groups
from dpd_constructs.waiter import Waiter, WaiterProps

# Nodes of an on-demand group come within half an hour or not at all; what the wait costs beyond that
# is the price of the groups that did come.
_TIMEOUT_S: Final = 50 * 60
# HyperPod replaces a node that failed, which takes about as long as making one.
_FAILURE_GRACE_S: Final = 20 * 60


@dataclass(frozen=True)
class NodesReadyProps:
    """Say which cluster is waited for, and what its groups want."""

    cluster_arn: str
    hyperpod: HyperPod


class NodesReady(Construct):
    """Wait until each group has all its nodes; a change of a count or a type waits again."""

    def __init__(self, scope: Construct, construct_id: str, props: NodesReadyProps) -> None:
        super().__init__(scope, construct_id)
        waiter = Waiter(
            self,
            "Waiter",
            WaiterProps(
                handler="nodes_ready.handler",
                statements=[
                    iam.PolicyStatement(
                        actions=[
                            "sagemaker:DescribeCluster",
                            "sagemaker:ListClusterEvents",
                            "sagemaker:ListClusterNodes",
                        ],
                        resources=[props.cluster_arn],
                    )
                ],
                timeout_s=_TIMEOUT_S,
            ),
        )
        waiter.wait(
            waiter,
            "Resource",
            resource_type="Custom::HyperPodNodesReady",
            properties={
                "ClusterArn": props.cluster_arn,
                "FailureGraceSeconds": _FAILURE_GRACE_S,
                "Groups": [
                    {"Name": name, "InstanceTypes": list(group.instance_types), "Count": group.count}
                    for name, group in named_groups(props.hyperpod).items()
                ],
            },
        )
