"""What every network template must hold, whatever the environment."""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Network
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd_constructs.network import control_plane_zone_ids, small_subnets

ENVIRONMENTS = ["dev", "staging", "prod"]
Templates = dict[str, dict[str, dict[str, Any]]]
Resources = dict[str, dict[str, Any]]


def of_type(template: dict[str, Any], kind: str) -> Resources:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def tags(resource: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource["Properties"].get("Tags", [])}


@pytest.fixture(params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest, catalog: Catalog) -> Environment:
    value = catalog.environments[request.param].value
    assert value is not None
    return value


@pytest.fixture
def template(environment: Environment, environment_stacks: Templates) -> dict[str, Any]:
    return environment_stacks[environment.name]["network"]


def subnets(template: dict[str, Any], part: str) -> Resources:
    return {name: item for name, item in of_type(template, "AWS::EC2::Subnet").items() if part in name}


def test_no_template_names_a_zone(environment: Environment, environment_stacks: Templates) -> None:
    for name, template in environment_stacks[environment.name].items():
        text = json.dumps(template)
        assert "dummy1" not in text, name
        assert re.findall(rf"\b{environment.region}[a-f]\b", text) == [], name
        assert "Fn::GetAZs" not in text, name


def test_subnets_are_placed_by_zone_id(environment: Environment, template: dict[str, Any]) -> None:
    every = of_type(template, "AWS::EC2::Subnet")
    assert len(every) == 5
    for subnet in every.values():
        assert "AvailabilityZone" not in subnet["Properties"]
        assert re.fullmatch(r"[a-z0-9-]+-az\d", subnet["Properties"]["AvailabilityZoneId"])
    (gpu,) = subnets(template, "GpuSubnet").values()
    assert gpu["Properties"]["AvailabilityZoneId"] == environment.gpu_zone_id


def test_no_subnet_gives_public_addresses(template: dict[str, Any]) -> None:
    every = of_type(template, "AWS::EC2::Subnet").values()
    assert {subnet["Properties"]["MapPublicIpOnLaunch"] for subnet in every} == {False}


def test_gpu_subnet_waits_for_the_secondary_range(environment: Environment, template: dict[str, Any]) -> None:
    ((block, resource),) = of_type(template, "AWS::EC2::VPCCidrBlock").items()
    (gpu,) = subnets(template, "GpuSubnet").values()
    assert resource["Properties"]["CidrBlock"] == str(environment.network.gpu_subnet_cidr)
    assert gpu["Properties"]["CidrBlock"] == str(environment.network.gpu_subnet_cidr)
    assert gpu["DependsOn"] == [block]


def test_internal_load_balancers_get_the_gpu_subnet_and_one_subnet_of_the_other_zone(
    environment: Environment, template: dict[str, Any]
) -> None:
    tagged = {
        name: subnet["Properties"]["AvailabilityZoneId"]
        for name, subnet in of_type(template, "AWS::EC2::Subnet").items()
        if tags(subnet).get("kubernetes.io/role/internal-elb") == "1"
    }
    assert len(tagged) == 2
    assert sum("GpuSubnet" in name for name in tagged) == 1
    assert len(set(tagged.values())) == 2
    assert environment.gpu_zone_id in tagged.values()


def test_public_load_balancers_get_the_public_subnets_alone(template: dict[str, Any]) -> None:
    tagged = [
        name
        for name, subnet in of_type(template, "AWS::EC2::Subnet").items()
        if "kubernetes.io/role/elb" in tags(subnet)
    ]
    assert sorted(tagged) == sorted(subnets(template, "PublicSubnet"))


def test_private_subnets_leave_through_nat_and_reach_s3_without_it(template: dict[str, Any]) -> None:
    routes = of_type(template, "AWS::EC2::Route").values()
    to_nat = [
        route["Properties"]["RouteTableId"] for route in routes if "NatGatewayId" in route["Properties"]
    ]
    associations = [
        row["Properties"] for row in of_type(template, "AWS::EC2::SubnetRouteTableAssociation").values()
    ]
    private = {
        json.dumps(row["RouteTableId"])
        for row in associations
        if row["SubnetId"]["Ref"] not in subnets(template, "PublicSubnet")
    }
    assert private == {json.dumps(table) for table in to_nat}
    (endpoint,) = of_type(template, "AWS::EC2::VPCEndpoint").values()
    assert endpoint["Properties"]["VpcEndpointType"] == "Gateway"
    assert endpoint["Properties"]["ServiceName"].endswith(".s3")
    assert {json.dumps(table) for table in endpoint["Properties"]["RouteTableIds"]} == private


@pytest.mark.parametrize(
    ("kind", "peer"),
    [
        ("AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId"),
        ("AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId"),
    ],
    ids=["P-01-ingress", "P-02-egress"],
)
def test_node_group_names_itself(template: dict[str, Any], kind: str, peer: str) -> None:
    ((group, _),) = of_type(template, "AWS::EC2::SecurityGroup").items()
    (rule,) = of_type(template, kind).values()
    assert rule["Properties"]["IpProtocol"] == "-1"
    assert rule["Properties"]["GroupId"] == {"Fn::GetAtt": [group, "GroupId"]}
    assert rule["Properties"][peer] == {"Fn::GetAtt": [group, "GroupId"]}


def test_node_group_opens_only_tls_and_names_to_ranges(
    environment: Environment, template: dict[str, Any]
) -> None:
    (group,) = of_type(template, "AWS::EC2::SecurityGroup").values()
    assert "SecurityGroupIngress" not in group["Properties"]
    rules = group["Properties"]["SecurityGroupEgress"]
    cidr = str(environment.network.vpc_cidr)
    assert [(rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in rules] == [
        ("0.0.0.0/0", "tcp", 443, 443),
        (cidr, "udp", 53, 53),
        (cidr, "tcp", 53, 53),
    ]


def test_nothing_lets_the_world_in(environment: Environment, environment_stacks: Templates) -> None:
    for template in environment_stacks[environment.name].values():
        for group in of_type(template, "AWS::EC2::SecurityGroup").values():
            assert "0.0.0.0/0" not in json.dumps(group["Properties"].get("SecurityGroupIngress", []))
        for rule in of_type(template, "AWS::EC2::SecurityGroupIngress").values():
            assert "CidrIp" not in rule["Properties"]
            assert "CidrIpv6" not in rule["Properties"]


def test_security_group_texts_hold_only_what_ec2_accepts(template: dict[str, Any]) -> None:
    texts = re.findall(r'"(?:Group)?Description": "([^"]*)"', json.dumps(template))
    assert len(texts) >= 6
    for text in texts:
        assert re.fullmatch(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}", text), text


def test_flow_logs_are_kept_for_a_month(template: dict[str, Any]) -> None:
    (flow_log,) = of_type(template, "AWS::EC2::FlowLog").values()
    assert flow_log["Properties"]["TrafficType"] == "ALL"
    group = template["Resources"][flow_log["Properties"]["LogGroupName"]["Ref"]]
    assert group["Properties"]["RetentionInDays"] == 30


def test_no_placement_group_unless_asked(template: dict[str, Any]) -> None:
    assert of_type(template, "AWS::EC2::PlacementGroup") == {}


def test_everything_that_can_be_tagged_carries_the_environment(
    environment: Environment, template: dict[str, Any]
) -> None:
    for name, resource in template["Resources"].items():
        if "Tags" in resource["Properties"]:
            assert tags(resource)["hyperpod-dpd/environment"] == environment.name, name
            assert environment.tags.items() <= tags(resource).items(), name


def changed(environment: Environment, **values: Any) -> Environment:
    network = environment.network.model_copy(update=values.pop("network", {}))
    return environment.model_copy(update={**values, "network": network})


def test_zones_are_the_gpu_zone_and_one_more(environment: Environment, facts: Facts) -> None:
    first, second = control_plane_zone_ids(environment, facts)
    assert first == environment.gpu_zone_id
    assert second in facts.regions[environment.region].control_plane_zone_ids


def test_zones_skip_a_gpu_zone_without_control_plane(environment: Environment, facts: Facts) -> None:
    there = changed(environment, region="us-east-1", gpu_zone_id="use1-az3")
    assert "use1-az3" not in control_plane_zone_ids(there, facts)


def test_configured_zones_come_first(environment: Environment, facts: Facts) -> None:
    there = changed(
        environment, region="us-east-1", network={"control_plane_zone_ids": ("use1-az5", "use1-az4")}
    )
    assert control_plane_zone_ids(there, facts) == ("use1-az5", "use1-az4")


def test_a_region_without_zones_is_refused_with_the_key_to_set(
    environment: Environment, facts: Facts
) -> None:
    with pytest.raises(ValueError, match=r"known: none; set network\.control_plane_zone_ids"):
        control_plane_zone_ids(changed(environment, region="xx-nowhere-1"), facts)


@pytest.mark.parametrize(("cidr", "last"), [("10.0.0.0/16", "10.0.3.0/24"), ("10.0.0.0/24", "10.0.0.192/26")])
def test_small_subnets_fit_the_range(cidr: str, last: str) -> None:
    ranges = small_subnets(IPv4Network(cidr), 4)
    assert str(ranges[-1]) == last
    assert all(part.subnet_of(IPv4Network(cidr)) for part in ranges)
