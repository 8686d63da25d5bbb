"""The stack of the EKS control plane."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd_constructs.eks_cluster import EksCluster, EksClusterProps
from dpd_constructs.network import Network


class ClusterStack(cdk.Stack):
    """Hold the EKS cluster (``cluster``) and what gives its service accounts roles (``oidc_provider``)."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        network: Network,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        eks_cluster = EksCluster(self, "Eks", EksClusterProps(environment, facts, network))
        self.cluster = eks_cluster.cluster
        self.oidc_provider = eks_cluster.oidc_provider
