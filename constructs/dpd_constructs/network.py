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
from dpd_constructs.default_security_group import ClosedDefaultSecurityGroup
from dpd_constructs.network_routes import RouteTables, Zone, route_tables
from dpd_constructs.node_security_group import allow_file_system, node_security_group
from dpd_constructs.placement_group import placement_group_name
from dpd_constructs.vpc_endpoints import VpcEndpoints, VpcEndpointsProps, s3_endpoint

_CONTROL_PLANE_ZONES: Final = 2
"""EKS and an internal load balancer both demand two (EKS network-reqs page)."""
_SMALL_SUBNET_PREFIX: Final = 24


@dataclass(frozen=True)
class NetworkProps:
    """Say what the network is laid out for."""

    environment: Environment
    facts: Facts
    zone_ids: tuple[str, ...]
    """Two zones of the control plane, by id; the first one also holds the NAT gateway."""
    file_systems: bool = False
    """True where a model reads its weights from FSx."""


def control_plane_zone_ids(environment: Environment, facts: Facts) -> tuple[str, ...]:
    """Choose two zones: those configured, then the GPU zone, the system group's, and the region's others.

    Load balancers stand there, too, and reach pods in no other zone. A zone is skipped where EKS places
    no control plane. Raises ValueError where two zones cannot be found.
    """
    region = facts.regions.get(environment.region)
    offered = region.control_plane_zone_ids if region else ()
    near = [zone for zone in (environment.gpu_zone_id, environment.system_zone_id) if zone in offered]
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

    Attributes: those of NetworkParts, and ``public_subnets``, which a closed network has none of.
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
        gpu_subnet = self._node_subnet("Gpu", props.environment.gpu_zone_id, network.gpu_subnet_cidr)
        node_subnets = [gpu_subnet]
        if network.system_subnet_cidr is not None:
            zone_id = props.environment.system_zone_id
            node_subnets.append(self._node_subnet("System", zone_id, network.system_subnet_cidr))
        routes = route_tables(self, vpc_id=self._vpc.ref, zones=zones, private_subnets=node_subnets)
        self._load_balancer_tags(zones, gpu_subnet)
        s3_endpoint(self, self._vpc.ref, routes.private.ref, props.environment, props.facts)

        self.vpc: ec2.IVpc = self._imported_vpc(zones, routes)
        self.public_subnets: Sequence[ec2.ISubnet] = self.vpc.public_subnets
        self.control_plane_subnets: Sequence[ec2.ISubnet] = self.vpc.private_subnets
        imported = [self._imported_subnet(subnet, routes.private) for subnet in node_subnets]
        self.gpu_subnet: ec2.ISubnet = imported[0]
        self.system_subnet: ec2.ISubnet = imported[-1]
        self.node_security_groups: Sequence[ec2.ISecurityGroup] = [self._node_security_group()]
        ClosedDefaultSecurityGroup(
            self, "DefaultSecurityGroup", group_id=self._vpc.attr_default_security_group
        )
        self.placement_group_name: str | None = placement_group_name(self, props.environment)
        if network.closed:
            self._endpoints(props)
        self._flow_logs()

    def _zones(self, zone_ids: Sequence[str]) -> list[Zone]:
        network = self._environment.network
        # The same ranges with and without public subnets: closing a network moves nothing.
        ranges = small_subnets(network.vpc_cidr, 2 * len(zone_ids))
        public, private = ranges[: len(zone_ids)], ranges[len(zone_ids) :]
        return [
            Zone(
                zone_id,
                None if network.closed else self._subnet(f"PublicSubnet{i}", zone_id, public[i]),
                self._subnet(f"ControlPlaneSubnet{i}", zone_id, private[i]),
            )
            for i, zone_id in enumerate(zone_ids)
        ]

    def _node_subnet(self, part: str, zone_id: str, cidr: IPv4Network) -> ec2.CfnSubnet:
        """Make a subnet of nodes: the whole of a secondary range, since each EFA card takes an address."""
        block = ec2.CfnVPCCidrBlock(self, f"{part}Range", vpc_id=self._vpc.ref, cidr_block=str(cidr))
        subnet = self._subnet(f"{part}Subnet", zone_id, cidr)
        subnet.add_resource_dependency(block)
        return subnet

    def _imported_subnet(self, subnet: ec2.CfnSubnet, table: ec2.CfnRouteTable) -> ec2.ISubnet:
        return ec2.Subnet.from_subnet_attributes(
            self,
            f"Imported{subnet.node.id}",
            subnet_id=subnet.ref,
            availability_zone=subnet.attr_availability_zone,
            route_table_id=table.ref,
        )

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

    def _load_balancer_tags(self, zones: Sequence[Zone], gpu_subnet: ec2.CfnSubnet) -> None:
        """Tag one private subnet per zone for internal load balancers, the GPU subnet in its own.

        A load balancer takes one subnet per zone and needs two zones. If it took the small subnet of
        the GPU zone instead, or none there, its targets would stay `unused`.
        """
        other = next(zone for zone in zones if zone.zone_id != self._environment.gpu_zone_id)
        for subnet in (gpu_subnet, other.private):
            cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")
        for subnet in [zone.public for zone in zones if zone.public is not None]:
            cdk.Tags.of(subnet).add("kubernetes.io/role/elb", "1")

    def _imported_vpc(self, zones: Sequence[Zone], routes: RouteTables) -> ec2.IVpc:
        public = [zone.public for zone in zones if zone.public is not None]
        public_routes = [routes.public.ref for _ in public] if routes.public is not None else []
        return ec2.Vpc.from_vpc_attributes(
            self,
            "ImportedVpc",
            vpc_id=self._vpc.ref,
            vpc_cidr_block=str(self._environment.network.vpc_cidr),
            availability_zones=[zone.private.attr_availability_zone for zone in zones],
            public_subnet_ids=[subnet.ref for subnet in public] or None,
            private_subnet_ids=[zone.private.ref for zone in zones],
            public_subnet_route_table_ids=public_routes or None,
            private_subnet_route_table_ids=[routes.private.ref for _ in zones],
        )

    def _node_security_group(self) -> ec2.SecurityGroup:
        cidr = str(self._environment.network.vpc_cidr)
        group = node_security_group(self, "NodeSecurityGroup", vpc=self.vpc, vpc_cidr=cidr)
        if self._environment.weights.fsx_security_group_id:
            allow_file_system(self, group, self._environment.weights.fsx_security_group_id)
        return group

    def _endpoints(self, props: NetworkProps) -> None:
        network = props.environment.network
        cidrs = (network.vpc_cidr, network.gpu_subnet_cidr, network.system_subnet_cidr)
        VpcEndpoints(
            self,
            "Endpoints",
            VpcEndpointsProps(
                environment=props.environment,
                facts=props.facts,
                vpc=self.vpc,
                subnets=self.control_plane_subnets,
                cidrs=[str(cidr) for cidr in cidrs if cidr is not None],
                file_systems=props.file_systems,
            ),
        )

    def _flow_logs(self) -> None:
        group = logs.LogGroup(self, "FlowLogGroup")
        ec2.FlowLog(
            self,
            "FlowLog",
            resource_type=ec2.FlowLogResourceType.from_vpc(self.vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
        )


def _name(environment: Environment, part: str) -> cdk.CfnTag:
    return cdk.CfnTag(key="Name", value=f"dpd-{environment.name}-{part}")
