"""The waits for what a cluster's Kubernetes API alone can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.waiter import InsideVpc, Waiter, WaiterProps

# What is waited for is there already, or is being installed: images to be pulled, a certificate to be made,
# devices to be counted. AWS's own template gives cert-manager six minutes
# (aws/sagemaker-hyperpod-cluster-setup, inference operator template).
_TIMEOUT_S: Final = 15 * 60
_READERS: Final = "hyperpod-dpd:waits"
"""Kubernetes group; EKS refuses names with prefixes of its own."""
_RBAC: Final = "rbac.authorization.k8s.io"
CRD_NAME: Final = "inferenceendpointconfigs.inference.sagemaker.aws.amazon.com"
TRIAL_NAMESPACE: Final = "default"
"""Where cert-manager's webhook is tried: a namespace of every cluster, and none that it leaves out."""


@dataclass(frozen=True)
class KubernetesWaitsProps:
    """Say which cluster is asked, and from where."""

    cluster: eks.ICluster
    network: NetworkParts


class KubernetesWaits(Construct):
    """Ask the API of a cluster through one function, for every wait of a stack.

    Who asks may read nodes and one definition, and try an issuer in one namespace: AWS's access policies
    that include nodes would also show every secret.
    """

    def __init__(self, scope: Construct, construct_id: str, props: KubernetesWaitsProps) -> None:
        super().__init__(scope, construct_id)
        cluster, network = props.cluster, props.network
        self._cluster_name = cluster.cluster_name
        self._waiter = Waiter(
            self,
            "Waiter",
            WaiterProps(
                handler="kubernetes_waits.handler",
                statements=[
                    iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster.cluster_arn])
                ],
                timeout_s=_TIMEOUT_S,
                # EKS's own group lets its members reach the private endpoint.
                inside=InsideVpc(network.vpc, network.control_plane_subnets, cluster.cluster_security_group),
            ),
        )
        self._rights = eks.KubernetesManifest(
            self,
            "Rights",
            cluster=cluster,
            manifest=_rights(),
            # CDK's removal succeeds whatever kubectl says, and its creation fails on what is left.
            overwrite=True,
            prune=False,
        )
        self._access = eks.CfnAccessEntry(
            self,
            "Access",
            cluster_name=cluster.cluster_name,
            principal_arn=self._waiter.checker.role_arn,
            kubernetes_groups=[_READERS],
        )

    def wait(
        self,
        scope: Construct,
        construct_id: str,
        *,
        check: str,
        resource_type: str,
        properties: Mapping[str, object],
    ) -> cdk.CustomResource:
        """Make the wait for a ``check`` that handlers/kubernetes_waits/handler.py knows."""
        resource = self._waiter.wait(
            scope,
            construct_id,
            resource_type=resource_type,
            properties={"ClusterName": self._cluster_name, "Check": check, **properties},
        )
        resource.node.add_dependency(self._rights, self._access)
        return resource


def _rights() -> list[dict[str, Any]]:
    reading = [
        _rule("", "nodes", "get", "list"),
        {**_rule("apiextensions.k8s.io", "customresourcedefinitions", "get"), "resourceNames": [CRD_NAME]},
    ]
    # No right to a trial alone exists; the issuer that is tried is one that cert-manager refuses.
    trial = [_rule("cert-manager.io", "issuers", "create")]
    return [*_role("Cluster", {}, reading), *_role("", {"namespace": TRIAL_NAMESPACE}, trial)]


def _rule(api_group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [api_group], "resources": [resource], "verbs": list(verbs)}


def _role(prefix: str, place: Mapping[str, str], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a role, of the cluster or of one namespace, and its binding to the group."""
    metadata = {"name": _READERS.replace(":", "-"), **place}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": f"{prefix}Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": metadata["name"]},
            "subjects": [{"kind": "Group", "name": _READERS, "apiGroup": _RBAC}],
        },
    ]
