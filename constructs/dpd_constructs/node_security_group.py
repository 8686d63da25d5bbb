"""The security group of every HyperPod node, and of the control plane beside it."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

# Ports of Lustre (FSx for Lustre user guide, page limit-access-security-groups).
_LUSTRE: Final = (ec2.Port.tcp(988), ec2.Port.tcp_range(1018, 1023))


def node_security_group(
    scope: Construct, construct_id: str, *, vpc: ec2.IVpc, vpc_cidr: str
) -> ec2.SecurityGroup:
    """Allow everything among members, and out of the group only TLS and name resolution.

    EFA's health check wants the group itself named in both directions; a range such as 0.0.0.0/0
    does not count (reports P-01 and P-02). Time comes from the link-local address of the host,
    which security groups do not filter.
    """
    group = ec2.SecurityGroup(
        scope,
        construct_id,
        vpc=vpc,
        description="HyperPod nodes, with EFA among them, and the EKS control plane",
        # With True, CDK drops the rule to the group itself without a word.
        allow_all_outbound=False,
    )
    group.add_ingress_rule(group, ec2.Port.all_traffic(), "EFA and pods, from members")
    group.add_egress_rule(group, ec2.Port.all_traffic(), "EFA and pods, to members")
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS APIs and image registries")
    for port in (ec2.Port.udp(53), ec2.Port.tcp(53)):
        group.add_egress_rule(ec2.Peer.ipv4(vpc_cidr), port, "VPC resolver")
    return group


def allow_file_system(scope: Construct, nodes: ec2.SecurityGroup, file_system_group_id: str) -> None:
    """Let nodes and an FSx for Lustre file system in a group of its own reach each other.

    A file system that carries the nodes' group needs none of this. Lustre also calls its clients back.
    """
    group = ec2.SecurityGroup.from_security_group_id(scope, "FileSystemSecurityGroup", file_system_group_id)
    for port in _LUSTRE:
        nodes.add_egress_rule(group, port, "Lustre, to the file system")
        nodes.add_ingress_rule(group, port, "Lustre, from the file system")
        group.add_ingress_rule(nodes, port, "Lustre, from nodes")
