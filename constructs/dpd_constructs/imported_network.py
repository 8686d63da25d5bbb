"""A network that somebody else made and named in the environment file."""

from __future__ import annotations

from aws_cdk import Annotations
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from dpd.spec.environment import Environment
from dpd.spec.existing import ExistingNetwork
from dpd_constructs.placement_group import placement_group_name

_NO_ROUTE_TABLE = "@aws-cdk/aws-ec2:noSubnetRouteTableId"


class ImportedNetwork(Construct):
    """Refer to everything by id; nothing of the network itself is made or changed.

    Attributes: those of NetworkParts.
    """

    def __init__(
        self, scope: Construct, construct_id: str, environment: Environment, existing: ExistingNetwork
    ) -> None:
        super().__init__(scope, construct_id)
        # The zone is a stand-in, which CDK demands: whoever uses the VPC names its subnets.
        self.vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=str(environment.network.vpc_cidr),
            availability_zones=[environment.gpu_zone_id],
        )
        self.gpu_subnet: ec2.ISubnet = self._subnet("GpuSubnet", existing.gpu_subnet_id)
        self.system_subnet: ec2.ISubnet = self.gpu_subnet
        self.control_plane_subnets: list[ec2.ISubnet] = [
            self._subnet(f"ControlPlaneSubnet{i}", subnet_id)
            for i, subnet_id in enumerate(existing.control_plane_subnet_ids)
        ]
        self.node_security_groups: list[ec2.ISecurityGroup] = [
            ec2.SecurityGroup.from_security_group_id(self, group.id, group.id, mutable=False)
            for group in existing.security_groups
        ]
        self.placement_group_name: str | None = placement_group_name(self, environment)

    def _subnet(self, construct_id: str, subnet_id: str) -> ec2.ISubnet:
        subnet = ec2.Subnet.from_subnet_id(self, construct_id, subnet_id)
        # Nothing here adds a route.
        Annotations.of(subnet).acknowledge_warning(_NO_ROUTE_TABLE)
        return subnet
