"""The network, made on a local EC2 out of the template's own properties."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

ROUTING = (
    "AWS::EC2::Subnet",
    "AWS::EC2::Route",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCEndpoint",
)
RULES = ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


@pytest.fixture(scope="module")
def routed(lab: Any) -> Any:
    lab.made_ids = lab.make(*ROUTING)
    return lab


def one(ids: dict[str, str], part: str) -> str:
    (found,) = (value for name, value in ids.items() if part in name and "Routes" not in name)
    return found


def subnet(lab: Any, part: str) -> dict[str, Any]:
    (found,) = lab.ec2.describe_subnets(SubnetIds=[one(lab.made_ids, part)])["Subnets"]
    return found


def routes(lab: Any, part: str) -> dict[str, dict[str, Any]]:
    """Return the routes of a subnet's table by destination."""
    mine = {"Name": "association.subnet-id", "Values": [one(lab.made_ids, part)]}
    (table,) = lab.ec2.describe_route_tables(Filters=[mine])["RouteTables"]
    return {
        route.get("DestinationCidrBlock") or route["DestinationPrefixListId"]: route
        for route in table["Routes"]
    }


def test_zone_ids_name_zones_of_the_account(routed: Any) -> None:
    zones = {
        row["ZoneId"]: row["ZoneName"]
        for row in routed.ec2.describe_availability_zones()["AvailabilityZones"]
    }
    gpu = subnet(routed, "GpuSubnet")

    assert gpu["AvailabilityZoneId"] == "usw2-az1"
    assert gpu["AvailabilityZone"] == zones["usw2-az1"]


def test_every_subnet_lies_in_a_range_of_the_vpc_and_beside_the_others(routed: Any) -> None:
    """EC2 itself refuses a subnet outside the VPC's ranges or over another one."""
    (vpc,) = routed.ec2.describe_vpcs(VpcIds=[subnet(routed, "GpuSubnet")["VpcId"]])["Vpcs"]
    ranges = [ip_network(row["CidrBlock"]) for row in vpc["CidrBlockAssociationSet"]]
    here = {"Name": "vpc-id", "Values": [vpc["VpcId"]]}
    subnets = [ip_network(row["CidrBlock"]) for row in routed.ec2.describe_subnets(Filters=[here])["Subnets"]]

    assert [str(cidr) for cidr in ranges] == ["10.0.0.0/16", "10.1.0.0/16"]
    assert len(subnets) == 5
    assert all(any(cidr.subnet_of(whole) for whole in ranges) for cidr in subnets)


def test_gpu_nodes_get_no_public_address(routed: Any) -> None:
    assert subnet(routed, "GpuSubnet")["MapPublicIpOnLaunch"] is False


@pytest.mark.parametrize("part", ["GpuSubnet", "ControlPlaneSubnet0", "ControlPlaneSubnet1"])
def test_private_subnets_leave_through_nat(routed: Any, part: str) -> None:
    way_out = routes(routed, part)["0.0.0.0/0"]

    assert way_out["NatGatewayId"].startswith("nat-")
    assert "GatewayId" not in way_out


@pytest.mark.parametrize("part", ["PublicSubnet0", "PublicSubnet1"])
def test_public_subnets_leave_through_the_internet_gateway(routed: Any, part: str) -> None:
    assert routes(routed, part)["0.0.0.0/0"]["GatewayId"].startswith("igw-")


def test_nat_stands_in_a_public_subnet(routed: Any) -> None:
    way_out = routes(routed, "GpuSubnet")["0.0.0.0/0"]["NatGatewayId"]
    (nat,) = routed.ec2.describe_nat_gateways(NatGatewayIds=[way_out])["NatGateways"]

    assert nat["SubnetId"] == one(routed.made_ids, "PublicSubnet0")


def test_weights_reach_nodes_beside_nat(routed: Any) -> None:
    mine = {"Name": "vpc-id", "Values": [subnet(routed, "GpuSubnet")["VpcId"]]}
    (endpoint,) = routed.ec2.describe_vpc_endpoints(Filters=[mine])["VpcEndpoints"]
    table = {"Name": "association.subnet-id", "Values": [one(routed.made_ids, "GpuSubnet")]}
    (private,) = routed.ec2.describe_route_tables(Filters=[table])["RouteTables"]

    assert endpoint["ServiceName"] == "com.amazonaws.us-west-2.s3"
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert endpoint["RouteTableIds"] == [private["RouteTableId"]]


def test_a_closed_network_has_no_way_out(new_lab: Callable[..., Any]) -> None:
    closed = new_lab(closed=True)
    closed.made_ids = closed.make(
        "AWS::EC2::Subnet", "AWS::EC2::Route", "AWS::EC2::SubnetRouteTableAssociation"
    )

    assert not [name for name in closed.made_ids if "PublicSubnet" in name]
    for part in ("GpuSubnet", "ControlPlaneSubnet0"):
        assert {route["GatewayId"] for route in routes(closed, part).values()} == {"local"}


@pytest.fixture(scope="module")
def group(lab: Any) -> tuple[Any, str]:
    made = lab.make(*RULES)
    (node_group,) = (
        value
        for name, value in made.items()
        if "NodeSecurityGroup" in name and str(value).startswith("sg-") and value.count("-") == 1
    )
    return lab, node_group


def rules(group: tuple[Any, str], *, egress: bool) -> list[dict[str, Any]]:
    lab, group_id = group
    mine = {"Name": "group-id", "Values": [group_id]}
    found = lab.ec2.describe_security_group_rules(Filters=[mine])["SecurityGroupRules"]
    return [rule for rule in found if rule["IsEgress"] is egress]


@pytest.mark.parametrize("egress", [False, True], ids=["P-01 ingress", "P-02 egress"])
def test_nodes_reach_each_other_by_a_rule_that_names_the_group(group: tuple[Any, str], egress: bool) -> None:
    named = [
        rule
        for rule in rules(group, egress=egress)
        if rule.get("ReferencedGroupInfo", {}).get("GroupId") == group[1]
    ]

    assert [rule["IpProtocol"] for rule in named] == ["-1"]


def test_nothing_else_comes_in(group: tuple[Any, str]) -> None:
    assert len(rules(group, egress=False)) == 1


def test_to_the_world_goes_tls_and_nothing_else(group: tuple[Any, str]) -> None:
    world = [rule for rule in rules(group, egress=True) if rule.get("CidrIpv4") == "0.0.0.0/0"]

    assert [(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in world] == [("tcp", 443, 443)]
