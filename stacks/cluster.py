"""The stack of the EKS control plane."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd_constructs.eks_cluster import EksCluster, EksClusterProps
from dpd_constructs.imported_cluster import ImportedCluster
from dpd_constructs.network_parts import NetworkParts
from stacks.security import SecurityStack


class ClusterStack(cdk.Stack):
    """Hold the EKS cluster (``cluster``), made here or existing, and ``oidc_provider`` for roles of pods."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        network: NetworkParts,
        security_stack: SecurityStack,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        keys = security_stack.keys
        existing = environment.kubernetes.existing
        eks_cluster = (
            ImportedCluster(
                self, "Eks", environment=environment, existing=existing, facts=facts, network=network
            )
            if existing
            else EksCluster(self, "Eks", EksClusterProps(environment, facts, network, keys.logs))
        )
        self.cluster: eks.ICluster = eks_cluster.cluster  # pyright: ignore[reportAttributeAccessIssue] - jsii types
        self.oidc_provider: iam.IOpenIdConnectProvider = eks_cluster.oidc_provider
