"""The VPC: two zones for EKS and load balancers, one subnet in one zone for every HyperPod node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd_constructs.node_security_group import node_security_group

_CONTROL_PLANE_ZONES: Final = 2
"""EKS and an internal load balancer both demand two (EKS network-reqs page)."""
_SMALL_SUBNET_PREFIX: Final = 24


@dataclass(frozen=True)
class NetworkProps:
    """Say what the network is laid out for."""

    environment: Environment
    zone_ids: tuple[str, ...]
    """Two zones of the control plane, by id; the first one also holds the NAT gateway."""


@dataclass(frozen=True)
class _Zone:
    """Hold the three things that repeat in each zone of the control plane."""

    zone_id: str
    public: ec2.CfnSubnet
    private: ec2.CfnSubnet


@dataclass(frozen=True)
class _RouteTables:
    """Hold the two tables: out through the internet gateway, and out through NAT."""

    public: ec2.CfnRouteTable
    private: ec2.CfnRouteTable


def control_plane_zone_ids(environment: Environment, facts: Facts) -> tuple[str, ...]:
    """Choose two zones: those configured, then the GPU zone, then the region's others.

    The GPU zone is skipped where EKS places no control plane. Raises ValueError where two zones
    cannot be found.
    """
    region = facts.regions.get(environment.region)
    offered = region.control_plane_zone_ids if region else ()
    near = [environment.gpu_zone_id] if environment.gpu_zone_id in offered else []
    zones = tuple(dict.fromkeys((*environment.network.control_plane_zone_ids, *near, *offered)))
    if len(zones) < _CONTROL_PLANE_ZONES:
        known = ", ".join(zones) or "none"
        raise ValueError(
            f"two control-plane zones are needed in {environment.region}, known: {known}; "
            "set network.control_plane_zone_ids"
        )
    return zones[:_CONTROL_PLANE_ZONES]


def small_subnets(vpc_cidr: IPv4Network, count: int) -> list[IPv4Network]:
    """Return the first ``count`` (at most four) small ranges of the VPC: /24, or a quarter of it."""
    prefix = max(_SMALL_SUBNET_PREFIX, vpc_cidr.prefixlen + 2)
    ranges = vpc_cidr.subnets(new_prefix=prefix)
    return [next(ranges) for _ in range(count)]


class Network(Construct):
    """Lay out subnets by zone *id*, so that one template means the same place in every account.

    Attributes: ``vpc``, ``gpu_subnet``, ``control_plane_subnets``, ``public_subnets``,
    ``node_security_group``, and ``placement_group`` (None unless the configuration creates one).
    """

    def __init__(self, scope: Construct, construct_id: str, props: NetworkProps) -> None:
        super().__init__(scope, construct_id)
        self._environment = props.environment
        network = props.environment.network
        # L1 resources: the L2 Vpc knows zones by name alone, and looks them up in the account.
        self._vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=str(network.vpc_cidr),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=[_name(props.environment, "vpc")],
        )
        zones = self._zones(props.zone_ids)
        gpu_subnet = self._gpu_subnet()
        routes = self._routes(zones, gpu_subnet)
        self._load_balancer_tags(zones, gpu_subnet)
        self._s3_endpoint(routes.private)

        self.vpc = self._imported_vpc(zones, routes)
        self.public_subnets = self.vpc.public_subnets
        self.control_plane_subnets = self.vpc.private_subnets
        self.gpu_subnet = ec2.Subnet.from_subnet_attributes(
            self,
            "ImportedGpuSubnet",
            subnet_id=gpu_subnet.ref,
            availability_zone=gpu_subnet.attr_availability_zone,
            route_table_id=routes.private.ref,
        )
        self.node_security_group = node_security_group(
            self, "NodeSecurityGroup", vpc=self.vpc, vpc_cidr=str(network.vpc_cidr)
        )
        self.placement_group = self._placement_group()
        self._flow_logs()

    def _zones(self, zone_ids: Sequence[str]) -> list[_Zone]:
        ranges = small_subnets(self._environment.network.vpc_cidr, 2 * len(zone_ids))
        public, private = ranges[: len(zone_ids)], ranges[len(zone_ids) :]
        return [
            _Zone(
                zone_id,
                self._subnet(f"PublicSubnet{i}", zone_id, public[i]),
                self._subnet(f"ControlPlaneSubnet{i}", zone_id, private[i]),
            )
            for i, zone_id in enumerate(zone_ids)
        ]

    def _gpu_subnet(self) -> ec2.CfnSubnet:
        """Make the GPU subnet: the whole of a secondary range, since each EFA card takes an address."""
        cidr = self._environment.network.gpu_subnet_cidr
        block = ec2.CfnVPCCidrBlock(self, "GpuRange", vpc_id=self._vpc.ref, cidr_block=str(cidr))
        subnet = self._subnet("GpuSubnet", self._environment.gpu_zone_id, cidr)
        subnet.add_resource_dependency(block)
        return subnet

    def _subnet(self, construct_id: str, zone_id: str, cidr: IPv4Network) -> ec2.CfnSubnet:
        return ec2.CfnSubnet(
            self,
            construct_id,
            vpc_id=self._vpc.ref,
            availability_zone_id=zone_id,
            cidr_block=str(cidr),
            map_public_ip_on_launch=False,
            tags=[_name(self._environment, construct_id)],
        )

    def _routes(self, zones: Sequence[_Zone], gpu_subnet: ec2.CfnSubnet) -> _RouteTables:
        """Route public subnets to an internet gateway and private ones to one NAT gateway."""
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attached = ec2.CfnVPCGatewayAttachment(
            self, "GatewayAttachment", vpc_id=self._vpc.ref, internet_gateway_id=gateway.ref
        )
        public = ec2.CfnRouteTable(self, "PublicRoutes", vpc_id=self._vpc.ref)
        public_route = ec2.CfnRoute(
            self,
            "PublicDefaultRoute",
            route_table_id=public.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        public_route.add_resource_dependency(attached)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        address.add_resource_dependency(attached)
        nat = ec2.CfnNatGateway(
            self, "Nat", subnet_id=zones[0].public.ref, allocation_id=address.attr_allocation_id
        )
        nat.add_resource_dependency(public_route)
        private = ec2.CfnRouteTable(self, "PrivateRoutes", vpc_id=self._vpc.ref)
        ec2.CfnRoute(
            self,
            "PrivateDefaultRoute",
            route_table_id=private.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        for i, zone in enumerate(zones):
            self._associate(f"PublicSubnet{i}Routes", zone.public, public)
            self._associate(f"ControlPlaneSubnet{i}Routes", zone.private, private)
        self._associate("GpuSubnetRoutes", gpu_subnet, private)
        return _RouteTables(public, private)

    def _associate(self, construct_id: str, subnet: ec2.CfnSubnet, table: ec2.CfnRouteTable) -> None:
        ec2.CfnSubnetRouteTableAssociation(self, construct_id, subnet_id=subnet.ref, route_table_id=table.ref)

    def _load_balancer_tags(self, zones: Sequence[_Zone], gpu_subnet: ec2.CfnSubnet) -> None:
        """Tag one private subnet per zone for internal load balancers, the GPU subnet in its own.

        A load balancer takes one subnet per zone and needs two zones. If it took the small subnet of
        the GPU zone instead, or none there, its targets would stay `unused`.
        """
        other = next(zone for zone in zones if zone.zone_id != self._environment.gpu_zone_id)
        for subnet in (gpu_subnet, other.private):
            cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")
        for zone in zones:
            cdk.Tags.of(zone.public).add("kubernetes.io/role/elb", "1")

    def _s3_endpoint(self, route_table: ec2.CfnRouteTable) -> None:
        """Keep weights off the NAT gateway; the operator's certificate download also wants it (P-31)."""
        ec2.CfnVPCEndpoint(
            self,
            "S3Endpoint",
            vpc_id=self._vpc.ref,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{cdk.Stack.of(self).region}.s3",
            route_table_ids=[route_table.ref],
        )

    def _imported_vpc(self, zones: Sequence[_Zone], routes: _RouteTables) -> ec2.IVpc:
        return ec2.Vpc.from_vpc_attributes(
            self,
            "ImportedVpc",
            vpc_id=self._vpc.ref,
            vpc_cidr_block=str(self._environment.network.vpc_cidr),
            availability_zones=[zone.public.attr_availability_zone for zone in zones],
            public_subnet_ids=[zone.public.ref for zone in zones],
            private_subnet_ids=[zone.private.ref for zone in zones],
            public_subnet_route_table_ids=[routes.public.ref for _ in zones],
            private_subnet_route_table_ids=[routes.private.ref for _ in zones],
        )

    def _placement_group(self) -> ec2.CfnPlacementGroup | None:
        """Make the group that the configuration asks for.

        It is for EC2 instances of your own: neither CloudFormation nor the API has a field by which
        HyperPod nodes could join it.
        """
        if self._environment.network.placement_group != "create":
            return None
        group = ec2.CfnPlacementGroup(self, "PlacementGroup", strategy="cluster")
        cdk.CfnOutput(self, "PlacementGroupName", value=group.ref)
        return group

    def _flow_logs(self) -> None:
        retained = cdk.RemovalPolicy.RETAIN if self._environment.protected else cdk.RemovalPolicy.DESTROY
        group = logs.LogGroup(
            self, "FlowLogGroup", retention=logs.RetentionDays.ONE_MONTH, removal_policy=retained
        )
        ec2.FlowLog(
            self,
            "FlowLog",
            resource_type=ec2.FlowLogResourceType.from_vpc(self.vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
        )


def _name(environment: Environment, part: str) -> cdk.CfnTag:
    return cdk.CfnTag(key="Name", value=f"dpd-{environment.name}-{part}")
