"""The SageMaker HyperPod cluster: one group of system nodes and one pool for each role."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from dpd.spec.environment import HyperPod
from dpd_constructs.instance_groups import NodesProps, instance_groups, vpc_config


@dataclass(frozen=True)
class HyperPodClusterProps:
    """Say which EKS cluster HyperPod joins, and what its nodes are."""

    name: str
    hyperpod: HyperPod
    eks_cluster_arn: str
    nodes: NodesProps


class HyperPodCluster(Construct):
    """Make the cluster with continuous provisioning.

    Name, orchestrator and network cannot change in place. Every GPU group lies in the one subnet, hence
    in one zone, and none joins a placement group: the resource has no property for it.
    """

    def __init__(self, scope: Construct, construct_id: str, props: HyperPodClusterProps) -> None:
        super().__init__(scope, construct_id)
        self.resource: sagemaker.CfnCluster = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=props.name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(
                    cluster_arn=props.eks_cluster_arn
                )
            ),
            # Group minimums, Spot, fallback types, and adding nodes one by one exist in this mode only.
            node_provisioning_mode="Continuous",
            node_recovery=props.hyperpod.node_recovery.capitalize(),
            vpc_config=vpc_config(props.nodes.gpu_subnet, props.nodes),
            instance_groups=instance_groups(props.hyperpod, props.nodes),
        )
