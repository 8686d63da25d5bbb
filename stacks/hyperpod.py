"""The stack of the HyperPod cluster and what must exist before its first node."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd.spec.names import cluster_name, lifecycle_bucket_name
from dpd_constructs.base_chart import BaseChart, BaseChartProps
from dpd_constructs.buckets import private_bucket
from dpd_constructs.execution_role import ExecutionRoleProps, HyperPodExecutionRole
from dpd_constructs.hyperpod_cluster import HyperPodCluster, HyperPodClusterProps
from dpd_constructs.lifecycle import LifecycleScripts
from dpd_constructs.network import Network
from dpd_constructs.nodes_ready import NodesReady, NodesReadyProps
from stacks.cluster import ClusterStack


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
        network: Network,
        cluster_stack: ClusterStack,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        eks_cluster = cluster_stack.cluster
        name = cluster_name(environment.name)
        chart = BaseChart(self, "BaseChart", BaseChartProps(environment, facts, network, eks_cluster))
        bucket = self._lifecycle_bucket(environment)
        scripts = LifecycleScripts(self, "LifecycleScripts", bucket=bucket)
        execution_role = HyperPodExecutionRole(
            self,
            "ExecutionRole",
            ExecutionRoleProps(
                name, eks_cluster.cluster_arn, network.gpu_subnet, network.node_security_group, bucket
            ),
        )
        hyperpod = HyperPodCluster(
            self,
            "HyperPod",
            HyperPodClusterProps(
                name=name,
                hyperpod=environment.hyperpod,
                eks_cluster_arn=eks_cluster.cluster_arn,
                subnet=network.gpu_subnet,
                security_group=network.node_security_group,
                execution_role=execution_role.role,
                lifecycle_s3_uri=scripts.source_s3_uri,
            ),
        )
        # Without the chart the service refuses the cluster: `missing one or more required
        # dependencies`. Without the script the first node fails.
        hyperpod.node.add_dependency(chart, scripts)
        self.cluster = hyperpod.resource
        self.cluster_arn = hyperpod.resource.attr_cluster_arn
        self.nodes_ready = NodesReady(
            self, "NodesReady", NodesReadyProps(self.cluster_arn, environment.hyperpod)
        )
        cdk.CfnOutput(self, "ClusterArn", value=self.cluster_arn)

    def _lifecycle_bucket(self, environment: Environment) -> s3.IBucket:
        if environment.hyperpod.lifecycle_bucket:
            return s3.Bucket.from_bucket_name(self, "LifecycleBucket", environment.hyperpod.lifecycle_bucket)
        return private_bucket(
            self,
            "LifecycleBucket",
            bucket_name=lifecycle_bucket_name(environment.name, self.account, environment.region),
            protected=environment.protected,
        )
