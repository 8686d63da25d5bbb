"""The wait for the devices of the GPU nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import ROLE_LABEL
from dpd.spec.environment import Environment
from dpd_constructs.instance_groups import SYSTEM_GROUP, named_groups
from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.waiter import InsideVpc, Waiter, WaiterProps

# Nodes are there already; what is waited for is two images to be pulled and to count devices.
_TIMEOUT_S: Final = 15 * 60
_READERS: Final = "hyperpod-dpd:node-readers"
"""Kubernetes group; EKS refuses names with prefixes of its own."""
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class DevicesReadyProps:
    """Say which cluster is asked, and from where."""

    environment: Environment
    facts: Facts
    cluster: eks.ICluster
    network: NetworkParts


class DevicesReady(Construct):
    """Wait until every GPU node offers all of its GPUs and EFA devices; groups of no node ask for nothing.

    Who asks may read nodes and nothing else: AWS's access policies that include nodes would also show
    every secret.
    """

    def __init__(self, scope: Construct, construct_id: str, props: DevicesReadyProps) -> None:
        super().__init__(scope, construct_id)
        cluster, network = props.cluster, props.network
        waiter = Waiter(
            self,
            "Waiter",
            WaiterProps(
                handler="devices_ready",
                resource_type="Custom::GpuDevicesReady",
                properties={"ClusterName": cluster.cluster_name, "Groups": _groups(props)},
                statements=[
                    iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster.cluster_arn])
                ],
                timeout_s=_TIMEOUT_S,
                # EKS's own group lets its members reach the private endpoint.
                inside=InsideVpc(network.vpc, network.control_plane_subnets, cluster.cluster_security_group),
            ),
        )
        readers = eks.KubernetesManifest(
            self, "NodeReaders", cluster=cluster, manifest=_node_readers(), prune=False
        )
        entry = eks.CfnAccessEntry(
            self,
            "Access",
            cluster_name=cluster.cluster_name,
            principal_arn=waiter.checker.role_arn,
            kubernetes_groups=[_READERS],
        )
        waiter.resource.node.add_dependency(readers, entry)


def _groups(props: DevicesReadyProps) -> list[dict[str, object]]:
    groups = named_groups(props.environment.hyperpod)
    return [
        {
            "Name": name,
            "Label": ROLE_LABEL,
            "Count": group.count,
            # Fallback types have the same counts (CAP015).
            "Devices": {
                "nvidia.com/gpu": props.facts.instances[group.instance_type].gpu_count,
                "vpc.amazonaws.com/efa": props.facts.instances[group.instance_type].efa_devices,
            },
        }
        for name, group in groups.items()
        if name != SYSTEM_GROUP
    ]


def _node_readers() -> list[dict[str, Any]]:
    name = _READERS.replace(":", "-")
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}
    subject = {"kind": "Group", "name": _READERS, "apiGroup": _RBAC}
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]
