"""The stack of the HyperPod cluster and what must exist before its first node."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.cost_control import Schedule
from dpd.spec.environment import Environment
from dpd.spec.names import cluster_name, lifecycle_bucket_name
from dpd_constructs.base_chart import BaseChart, BaseChartProps
from dpd_constructs.buckets import private_bucket
from dpd_constructs.execution_role import ExecutionRoleProps, HyperPodExecutionRole
from dpd_constructs.hyperpod_cluster import HyperPodCluster, HyperPodClusterProps
from dpd_constructs.instance_groups import NodesProps
from dpd_constructs.lifecycle import LifecycleScripts
from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.nodes_ready import NodesReady, NodesReadyProps
from dpd_constructs.service_log_group import ServiceLogGroup
from stacks.cluster import ClusterStack
from stacks.security import SecurityStack


class HyperPodStack(cdk.Stack):
    """Hold the nodes: base chart and lifecycle script, then the cluster, then the wait for nodes.

    Attributes: ``cluster`` (CfnCluster), ``cluster_arn``, ``nodes_ready``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        network: NetworkParts,
        cluster_stack: ClusterStack,
        security_stack: SecurityStack,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        eks_cluster = cluster_stack.cluster
        chart = BaseChart(self, "BaseChart", BaseChartProps(environment, facts, network, eks_cluster))
        scripts, bucket = self._scripts(environment, security_stack)
        nodes = NodesProps(
            gpu_subnet=network.gpu_subnet,
            system_subnet=network.system_subnet,
            security_groups=network.node_security_groups,
            execution_role=self._execution_role(environment, network, eks_cluster, bucket, security_stack),
            lifecycle_s3_uri=scripts.source_s3_uri,
            volumes_key=security_stack.keys.node_volumes,
        )
        name = cluster_name(environment.name)
        cluster_props = HyperPodClusterProps(name, environment.hyperpod, eks_cluster.cluster_arn, nodes)
        hyperpod = HyperPodCluster(self, "HyperPod", cluster_props)
        # Without the chart the service refuses the cluster: `missing one or more required
        # dependencies`. Without the script the first node fails.
        hyperpod.node.add_dependency(chart, scripts)
        self.cluster = hyperpod.resource
        self.cluster_arn = hyperpod.resource.attr_cluster_arn
        ready_props = NodesReadyProps(self.cluster_arn, environment.hyperpod)
        self.nodes_ready = NodesReady(self, "NodesReady", ready_props)
        self._node_logs(environment, security_stack)
        if environment.schedule is not None:
            self._schedule(environment, environment.schedule, eks_cluster, nodes)
        cdk.CfnOutput(self, "ClusterArn", value=self.cluster_arn)

    def _scripts(
        self, environment: Environment, security_stack: SecurityStack
    ) -> tuple[LifecycleScripts, s3.IBucket]:
        bucket = self._lifecycle_bucket(environment, security_stack)
        # A bucket of somebody else stays, and with it what nodes of another stack may still read.
        removable = not (environment.protected or environment.hyperpod.lifecycle_bucket)
        return LifecycleScripts(self, "LifecycleScripts", bucket=bucket, removable=removable), bucket

    def _execution_role(
        self,
        environment: Environment,
        network: NetworkParts,
        eks_cluster: eks.ICluster,
        bucket: s3.IBucket,
        security_stack: SecurityStack,
    ) -> iam.Role:
        return HyperPodExecutionRole(
            self,
            "ExecutionRole",
            ExecutionRoleProps(
                hyperpod_name=cluster_name(environment.name),
                eks_cluster_arn=eks_cluster.cluster_arn,
                subnets=list(dict.fromkeys((network.gpu_subnet, network.system_subnet))),
                security_groups=network.node_security_groups,
                lifecycle_bucket=bucket,
                volumes_key=security_stack.keys.node_volumes,
            ),
        ).role

    def _schedule(
        self, environment: Environment, schedule: Schedule, eks_cluster: eks.ICluster, nodes: NodesProps
    ) -> None:
        # Only here, since it takes modules of CDK that most environments do without.
        from dpd_constructs.gpu_schedule import GpuSchedule, GpuScheduleProps

        GpuSchedule(
            self,
            "Schedule",
            GpuScheduleProps(
                environment=environment,
                schedule=schedule,
                cluster=self.cluster,
                eks_cluster_arn=eks_cluster.cluster_arn,
                execution_role=nodes.execution_role,
                volumes_key=nodes.volumes_key,
            ),
        )

    def _node_logs(self, environment: Environment, security_stack: SecurityStack) -> None:
        """Take over the log group of the nodes, whose name holds the cluster's id."""
        cluster_id = cdk.Fn.select(1, cdk.Fn.split("/", self.cluster_arn))
        ServiceLogGroup(
            self,
            "NodeLogs",
            name=f"/aws/sagemaker/Clusters/{cluster_name(environment.name)}/{cluster_id}",
            key=security_stack.keys.logs,
            protected=environment.protected,
        )

    def _lifecycle_bucket(self, environment: Environment, security_stack: SecurityStack) -> s3.IBucket:
        if environment.hyperpod.lifecycle_bucket:
            return s3.Bucket.from_bucket_name(self, "LifecycleBucket", environment.hyperpod.lifecycle_bucket)
        return private_bucket(
            self,
            "LifecycleBucket",
            bucket_name=lifecycle_bucket_name(environment.name, self.account, environment.region),
            standard=security_stack.buckets,
        )
