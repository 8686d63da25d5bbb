"""The SageMaker HyperPod cluster: one group of system nodes and one pool for each role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from dpd.spec.deployment import ROLE_LABEL
from dpd.spec.environment import Group, HyperPod
from dpd_constructs.lifecycle import ON_CREATE

SYSTEM_GROUP = "system"


def named_groups(hyperpod: HyperPod) -> dict[str, Group]:
    """Return the instance groups by the name that each has in the cluster and in its node label."""
    groups = hyperpod.groups
    return {SYSTEM_GROUP: groups.system, "prefill": groups.prefill, "decode": groups.decode}


@dataclass(frozen=True)
class HyperPodClusterProps:
    """Say where the cluster stands and what its nodes are."""

    name: str
    hyperpod: HyperPod
    eks_cluster_arn: str
    subnet: ec2.ISubnet
    security_group: ec2.ISecurityGroup
    execution_role: iam.Role
    lifecycle_s3_uri: str


class HyperPodCluster(Construct):
    """Make the cluster with continuous provisioning.

    Name, orchestrator and network cannot change in place. Every group lies in the one subnet, hence
    in one zone, and none joins a placement group: the resource has no property for it.
    """

    def __init__(self, scope: Construct, construct_id: str, props: HyperPodClusterProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self.resource: sagemaker.CfnCluster = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=props.name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(
                    cluster_arn=props.eks_cluster_arn
                )
            ),
            # The group minimum below, and adding nodes one by one, exist in this mode only.
            node_provisioning_mode="Continuous",
            node_recovery=props.hyperpod.node_recovery.capitalize(),
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                security_group_ids=[props.security_group.security_group_id],
                subnets=[props.subnet.subnet_id],
            ),
            instance_groups=[
                self._group(name, group) for name, group in named_groups(props.hyperpod).items()
            ],
        )

    def _group(self, name: str, group: Group) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        system = name == SYSTEM_GROUP
        return sagemaker.CfnCluster.ClusterInstanceGroupProperty(
            instance_group_name=name,
            instance_type=group.instance_type,
            instance_count=group.count,
            # Add-ons need system nodes at once. GPU capacity may come late, and a minimum there would
            # take the whole group back after three hours.
            min_instance_count=group.count if system else None,
            execution_role=self._props.execution_role.role_arn,
            # The schema has it optional, yet the service demands it of every EKS group, even an empty
            # one (API reference, ClusterLifeCycleConfig).
            life_cycle_config=sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
                source_s3_uri=self._props.lifecycle_s3_uri, on_create=ON_CREATE
            ),
            kubernetes_config=sagemaker.CfnCluster.ClusterKubernetesConfigProperty(
                labels={**group.labels, ROLE_LABEL: name}
            ),
            training_plan_arn=group.training_plan_arn,
            # All vCPUs of the facts, which pods are sized by, count two threads a core.
            threads_per_core=None if system else 2,
            on_start_deep_health_checks=None if system else self._deep_health_checks(),
        )

    def _deep_health_checks(self) -> Sequence[str] | None:
        return list(self._props.hyperpod.deep_health_checks) or None
