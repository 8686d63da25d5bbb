"""The ways out of the VPC: an internet gateway and one NAT gateway, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


@dataclass(frozen=True)
class Zone:
    """Hold the subnets that repeat in each zone of the control plane."""

    zone_id: str
    public: ec2.CfnSubnet | None
    """None in a closed network, where nothing may be reached from the internet or reach it."""
    private: ec2.CfnSubnet


@dataclass(frozen=True)
class RouteTables:
    """Hold the tables; ``public`` is None in a closed network, and ``private`` then has no default route."""

    public: ec2.CfnRouteTable | None
    private: ec2.CfnRouteTable


def route_tables(
    scope: Construct, *, vpc_id: str, zones: Sequence[Zone], private_subnets: Sequence[ec2.CfnSubnet]
) -> RouteTables:
    """Make the tables and associate them: ``private_subnets`` and those of ``zones`` share one.

    ``scope`` owns the resources, so that their ids do not depend on which tables there are.
    """
    private = ec2.CfnRouteTable(scope, "PrivateRoutes", vpc_id=vpc_id)
    public_subnets = [zone.public for zone in zones if zone.public is not None]
    public = _public_routes(scope, vpc_id, public_subnets, private) if public_subnets else None
    for i, zone in enumerate(zones):
        if zone.public is not None and public is not None:
            _associate(scope, f"PublicSubnet{i}Routes", zone.public, public)
        _associate(scope, f"ControlPlaneSubnet{i}Routes", zone.private, private)
    for subnet in private_subnets:
        _associate(scope, f"{subnet.node.id}Routes", subnet, private)
    return RouteTables(public, private)


def _public_routes(
    scope: Construct, vpc_id: str, subnets: Sequence[ec2.CfnSubnet], private: ec2.CfnRouteTable
) -> ec2.CfnRouteTable:
    """Route public subnets to an internet gateway, and the private table to a NAT gateway in the first."""
    gateway = ec2.CfnInternetGateway(scope, "InternetGateway")
    attached = ec2.CfnVPCGatewayAttachment(
        scope, "GatewayAttachment", vpc_id=vpc_id, internet_gateway_id=gateway.ref
    )
    public = ec2.CfnRouteTable(scope, "PublicRoutes", vpc_id=vpc_id)
    public_route = ec2.CfnRoute(
        scope,
        "PublicDefaultRoute",
        route_table_id=public.ref,
        destination_cidr_block="0.0.0.0/0",
        gateway_id=gateway.ref,
    )
    public_route.add_resource_dependency(attached)
    address = ec2.CfnEIP(scope, "NatAddress", domain="vpc")
    address.add_resource_dependency(attached)
    nat = ec2.CfnNatGateway(scope, "Nat", subnet_id=subnets[0].ref, allocation_id=address.attr_allocation_id)
    nat.add_resource_dependency(public_route)
    ec2.CfnRoute(
        scope,
        "PrivateDefaultRoute",
        route_table_id=private.ref,
        destination_cidr_block="0.0.0.0/0",
        nat_gateway_id=nat.ref,
    )
    return public


def _associate(scope: Construct, construct_id: str, subnet: ec2.CfnSubnet, table: ec2.CfnRouteTable) -> None:
    ec2.CfnSubnetRouteTableAssociation(scope, construct_id, subnet_id=subnet.ref, route_table_id=table.ref)
