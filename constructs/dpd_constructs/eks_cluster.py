"""The EKS control plane and the add-ons that it needs before any node exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd.spec.names import cluster_name
from dpd_constructs.addons import addon_version
from dpd_constructs.cluster_access import administrators
from dpd_constructs.kubectl import kubectl_layer
from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.service_log_group import ServiceLogGroup

BASE_ADDONS: Final = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""Those that are ACTIVE without a node; CoreDNS comes after the nodes."""
_EVERY_LOG: Final = (
    eks.ClusterLoggingTypes.API,
    eks.ClusterLoggingTypes.AUDIT,
    eks.ClusterLoggingTypes.AUTHENTICATOR,
    eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
    eks.ClusterLoggingTypes.SCHEDULER,
)


@dataclass(frozen=True)
class EksClusterProps:
    """Say which cluster stands in which network."""

    environment: Environment
    facts: Facts
    network: NetworkParts
    logs_key: kms.IKey | None = None


class EksCluster(Construct):
    """Make a private EKS cluster without capacity of its own: HyperPod brings the nodes.

    Attributes: ``cluster``, ``oidc_provider`` (for roles of service accounts).
    """

    def __init__(self, scope: Construct, construct_id: str, props: EksClusterProps) -> None:
        super().__init__(scope, construct_id)
        environment, network = props.environment, props.network
        tools = kubectl_layer(
            self, "KubectlLayer", kubernetes_version=environment.kubernetes.version, facts=props.facts
        )
        subnets = ec2.SubnetSelection(subnets=network.control_plane_subnets)
        self.cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name(environment.name),
            version=eks.KubernetesVersion.of(environment.kubernetes.version),
            vpc=network.vpc,
            vpc_subnets=[subnets],
            # The nodes' group on the control plane's interfaces lets both sides reach each other.
            security_group=network.node_security_groups[0],
            endpoint_access=_endpoint_access(environment),
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            secrets_encryption_key=self._secrets_key(environment),
            cluster_logging=list(_EVERY_LOG),
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=tools,
                # A provider outside the VPC cannot reach a private endpoint (report P-80).
                private_subnets=network.control_plane_subnets,
            ),
        )
        logs = ServiceLogGroup(
            self,
            "Logs",
            name=f"/aws/eks/{cluster_name(environment.name)}/cluster",
            key=props.logs_key,
            protected=environment.protected,
        )
        self.cluster.node.find_child("Resource").node.add_dependency(logs)
        # The subnets carry the load balancers' tags already; CDK cannot see that on imported ones.
        cdk.Annotations.of(self.cluster).acknowledge_warning("@aws-cdk/aws-eks:clusterMustManuallyTagSubnet")
        self.oidc_provider = self.cluster.open_id_connect_provider
        self._addons(environment, props.facts)
        administrators(self, cluster=self.cluster, environment=environment)  # pyright: ignore[reportArgumentType] - jsii types

    def _secrets_key(self, environment: Environment) -> kms.Key:
        retained = cdk.RemovalPolicy.RETAIN if environment.protected else cdk.RemovalPolicy.DESTROY
        return kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of {cluster_name(environment.name)}",
            enable_key_rotation=True,
            removal_policy=retained,
        )

    def _addons(self, environment: Environment, facts: Facts) -> None:
        """Pin each add-on: an unpinned one changes under a running cluster (report P-18)."""
        for name in BASE_ADDONS:
            eks.CfnAddon(
                self,
                f"Addon-{name}",
                addon_name=name,
                addon_version=addon_version(name, environment, facts),
                cluster_name=self.cluster.cluster_name,
                # EKS has installed self-managed copies of two of them; the add-on takes them over.
                resolve_conflicts="OVERWRITE",
            )


def _endpoint_access(environment: Environment) -> eks.EndpointAccess:
    cidrs = [str(cidr) for cidr in environment.kubernetes.public_access_cidrs]
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*cidrs) if cidrs else eks.EndpointAccess.PRIVATE
