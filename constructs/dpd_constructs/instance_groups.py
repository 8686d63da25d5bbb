"""The instance groups of a HyperPod cluster, as its resource takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from dpd.spec.deployment import ROLE_LABEL
from dpd.spec.environment import HyperPod
from dpd.spec.instance_group import Group, Maintenance
from dpd_constructs.lifecycle import ON_CREATE
from dpd_constructs.node_volumes import node_volumes

SYSTEM_GROUP = "system"


def named_groups(hyperpod: HyperPod) -> dict[str, Group]:
    """Return the instance groups by the name that each has in the cluster and in its node label."""
    groups = hyperpod.groups
    return {SYSTEM_GROUP: groups.system, "prefill": groups.prefill, "decode": groups.decode}


@dataclass(frozen=True)
class NodesProps:
    """Say where nodes stand, and what each of them is given."""

    gpu_subnet: ec2.ISubnet
    system_subnet: ec2.ISubnet
    """The same object as ``gpu_subnet``, unless the system group has a zone of its own."""
    security_groups: Sequence[ec2.ISecurityGroup]
    execution_role: iam.Role
    lifecycle_s3_uri: str
    volumes_key: kms.IKey | None = None


def instance_groups(
    hyperpod: HyperPod, nodes: NodesProps
) -> list[sagemaker.CfnCluster.ClusterInstanceGroupProperty]:
    """Return every group, system first."""
    return [_group(name, group, hyperpod, nodes) for name, group in named_groups(hyperpod).items()]


def vpc_config(subnet: ec2.ISubnet, nodes: NodesProps) -> sagemaker.CfnCluster.VpcConfigProperty:
    """Return one subnet with the security groups of every node."""
    return sagemaker.CfnCluster.VpcConfigProperty(
        security_group_ids=[group.security_group_id for group in nodes.security_groups],
        subnets=[subnet.subnet_id],
    )


def _group(
    name: str, group: Group, hyperpod: HyperPod, nodes: NodesProps
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    system = name == SYSTEM_GROUP
    elsewhere = system and nodes.system_subnet is not nodes.gpu_subnet
    flexible = bool(group.fallback_instance_types)
    return sagemaker.CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=name,
        instance_type=None if flexible else group.instance_type,
        instance_requirements=_types(group) if flexible else None,
        instance_count=group.count,
        # Add-ons need system nodes at once. GPU capacity may come late, and a minimum there would take
        # the whole group back after three hours.
        min_instance_count=group.count if system else None,
        capacity_requirements=_spot() if group.capacity == "spot" else None,
        execution_role=nodes.execution_role.role_arn,
        # The schema has it optional, yet the service demands it of every EKS group, even an empty one
        # (API reference, ClusterLifeCycleConfig).
        life_cycle_config=sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=nodes.lifecycle_s3_uri, on_create=ON_CREATE
        ),
        kubernetes_config=_kubernetes(name, group),
        training_plan_arn=group.training_plan_arn,
        # The service cannot change it for a group that exists.
        override_vpc_config=vpc_config(nodes.system_subnet, nodes) if elsewhere else None,
        # All vCPUs of the facts, which pods are sized by, count two threads a core.
        threads_per_core=None if system else 2,
        instance_storage_configs=node_volumes(group, nodes.volumes_key),
        on_start_deep_health_checks=None if system else list(hyperpod.deep_health_checks) or None,
        scheduled_update_config=_window(hyperpod.maintenance) if hyperpod.maintenance else None,
    )


def _types(group: Group) -> sagemaker.CfnCluster.InstanceRequirementsProperty:
    return sagemaker.CfnCluster.InstanceRequirementsProperty(instance_types=list(group.instance_types))


def _spot() -> sagemaker.CfnCluster.ClusterCapacityRequirementsProperty:
    return sagemaker.CfnCluster.ClusterCapacityRequirementsProperty(spot={})


def _kubernetes(name: str, group: Group) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty:
    taints = [
        sagemaker.CfnCluster.ClusterKubernetesTaintProperty(
            key=taint.key, value=taint.value or None, effect=taint.effect
        )
        for taint in group.taints
    ]
    return sagemaker.CfnCluster.ClusterKubernetesConfigProperty(
        labels={**group.labels, ROLE_LABEL: name}, taints=taints or None
    )


def _window(maintenance: Maintenance) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty:
    """Update images in batches.

    Not by AutoPatchConfig: CloudFormation knows only its strategies that wait for idle nodes, which
    serving nodes never are, and that cordon the whole group meanwhile.
    """
    batch = sagemaker.CfnCluster.CapacitySizeConfigProperty(
        type="INSTANCE_COUNT", value=maintenance.batch_nodes
    )
    return sagemaker.CfnCluster.ScheduledUpdateConfigProperty(
        schedule_expression=maintenance.schedule,
        deployment_config=sagemaker.CfnCluster.DeploymentConfigProperty(
            rolling_update_policy=sagemaker.CfnCluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            wait_interval_in_seconds=maintenance.wait_s,
            auto_rollback_configuration=[
                sagemaker.CfnCluster.AlarmDetailsProperty(alarm_name=name)
                for name in maintenance.rollback_alarms
            ]
            or None,
        ),
    )
