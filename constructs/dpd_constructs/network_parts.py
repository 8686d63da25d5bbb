"""What the other stacks need of a network, whether the stacks made it or found it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aws_cdk import aws_ec2 as ec2


class NetworkParts(Protocol):
    """Give the VPC, its subnets and what nodes carry, whether made here or existing."""

    @property
    def vpc(self) -> ec2.IVpc:
        """Return the VPC."""
        ...

    @property
    def gpu_subnet(self) -> ec2.ISubnet:
        """Return the one subnet of every GPU node."""
        ...

    @property
    def system_subnet(self) -> ec2.ISubnet:
        """Return the subnet of the system nodes: the GPU subnet, unless they have a zone of their own."""
        ...

    @property
    def control_plane_subnets(self) -> Sequence[ec2.ISubnet]:
        """Return private subnets in two zones or more."""
        ...

    @property
    def node_security_groups(self) -> Sequence[ec2.ISecurityGroup]:
        """Return the groups of every node, at least one; a control plane made here carries the first."""
        ...

    @property
    def placement_group_name(self) -> str | None:
        """Return the placement group of the environment, None where it has none."""
        ...
