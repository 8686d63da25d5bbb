"""An EKS cluster that somebody else made and named in the environment file."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd.spec.existing import ExistingCluster
from dpd_constructs.cluster_access import administrators
from dpd_constructs.kubectl import kubectl_layer
from dpd_constructs.network_parts import NetworkParts


class ImportedCluster(Construct):
    """Refer to the cluster by name, and make only the function through which manifests reach it.

    Its add-ons, logs and encryption stay as they are. The function runs as the role that the
    environment names, since a new role is nobody in the cluster until an administrator lets it in.

    Attributes: ``cluster``, ``oidc_provider`` (for roles of service accounts).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        existing: ExistingCluster,
        facts: Facts,
        network: NetworkParts,
    ) -> None:
        super().__init__(scope, construct_id)
        self.oidc_provider: iam.IOpenIdConnectProvider = (
            iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
                self, "OidcProvider", existing.oidc_provider_arn
            )
        )
        self._attributes: dict[str, Any] = {
            "cluster_name": existing.cluster_name,
            "cluster_security_group_id": existing.security_group_id,
            "open_id_connect_provider": self.oidc_provider,
            "vpc": network.vpc,
        }
        tools = kubectl_layer(
            self, "KubectlLayer", kubernetes_version=environment.kubernetes.version, facts=facts
        )
        self.cluster: eks.ICluster = eks.Cluster.from_cluster_attributes(
            self,
            "Cluster",
            kubectl_provider=self._kubectl(existing, network, tools),  # pyright: ignore[reportArgumentType] - jsii types
            **self._attributes,
        )
        administrators(self, cluster=self.cluster, environment=environment)

    def _kubectl(
        self, existing: ExistingCluster, network: NetworkParts, tools: lambda_.LayerVersion
    ) -> eks.KubectlProvider:
        provider = eks.KubectlProvider(
            self,
            "Kubectl",
            # A provider wants a cluster, and an imported cluster its provider: hence two imports.
            cluster=eks.Cluster.from_cluster_attributes(self, "WithoutKubectl", **self._attributes),
            kubectl_layer=tools,
            private_subnets=list(network.control_plane_subnets),
            role=iam.Role.from_role_arn(self, "KubectlRole", existing.kubectl_role_arn, mutable=False),
        )
        # For managed policies that CDK would add to the role, if the role were not another's.
        self.node.try_remove_child("HasEcrPublic")
        return provider
