"""Who may do anything with a cluster: people and builds, each by an access entry."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from dpd.spec.environment import Environment


def administrator(
    scope: Construct, construct_id: str, *, cluster: eks.ICluster, principal_arn: str
) -> eks.AccessEntry:
    """Make a principal an administrator of the whole cluster."""
    return eks.AccessEntry(
        scope,
        construct_id,
        cluster=cluster,
        principal=principal_arn,
        access_policies=[
            eks.AccessPolicy.from_access_policy_name(
                "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
            )
        ],
    )


def administrators(scope: Construct, *, cluster: eks.ICluster, environment: Environment) -> None:
    """Let the people of ``kubernetes.admin_arns`` in: EKS knows only the principals of its access entries."""
    for arn in environment.kubernetes.admin_arns:
        # The name keeps the id the same when the list is sorted otherwise.
        construct_id = f"Admin-{arn.rpartition(':')[2].replace('/', '-')}"
        administrator(scope, construct_id, cluster=cluster, principal_arn=arn)
    existing = environment.kubernetes.existing
    name = existing.cluster_name if existing else cluster.cluster_name
    cdk.CfnOutput(
        scope,
        "Kubeconfig",
        value=f"aws eks update-kubeconfig --region {cdk.Stack.of(scope).region} --name {name}",
        description="For a principal of kubernetes.admin_arns, from inside the VPC",
    )
