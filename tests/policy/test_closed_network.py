"""A closed network: no way out but endpoints, nothing pulled but copies, and a placement group."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.facts import Facts

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
DIGEST = f"sha256:{'ab' * 32}"
CHART_SHA256 = "cd" * 32
CERTIFICATE = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"
Template = dict[str, Any]


@pytest.fixture(scope="session")
def site(site_bundles: Any) -> Path:
    return site_bundles.folder


@pytest.fixture(scope="module")
def closed(site: Path) -> dict[str, Template]:
    return templates(site / "closed")


def templates(bundle: Path) -> dict[str, Template]:
    return {
        path.name.removeprefix(f"dpd-{bundle.name}-").removesuffix(".template.json"): json.loads(
            path.read_text()
        )
        for path in (bundle / "cdk").glob("*.template.json")
    }


def of_type(template: Template, kind: str) -> list[Template]:
    return [item["Properties"] for item in template["Resources"].values() if item["Type"] == kind]


def kinds(stacks: dict[str, Template]) -> set[str]:
    return {item["Type"] for template in stacks.values() for item in template["Resources"].values()}


def endpoint(network: Template, service: str) -> Template:
    (found,) = (
        item
        for item in of_type(network, "AWS::EC2::VPCEndpoint")
        if item["ServiceName"] == f"com.amazonaws.us-west-2.{service}"
    )
    return found


def allowed(policy: Template) -> list[tuple[Any, Any, Any]]:
    return [
        (statement["Action"], statement["Resource"], statement.get("Condition", {}).get("StringEquals"))
        for statement in policy["Statement"]
        if (statement["Effect"], statement["Principal"]) == ("Allow", {"AWS": "*"})
    ]


OWN = {"Ref": "AWS::AccountId"}


def test_closed_has_no_way_to_the_internet(closed: dict[str, Template]) -> None:
    ways = {
        "InternetGateway",
        "NatGateway",
        "EIP",
        "Route",
        "VPCGatewayAttachment",
        "EgressOnlyInternetGateway",
    }
    assert not {f"AWS::EC2::{way}" for way in ways} & kinds(closed)
    assert len(of_type(closed["network"], "AWS::EC2::Subnet")) == 3
    assert "kubernetes.io/role/elb" not in json.dumps(closed["network"])


def test_closed_still_offers_its_load_balancers_two_zones(closed: dict[str, Template]) -> None:
    tagged = [
        subnet["AvailabilityZoneId"]
        for subnet in of_type(closed["network"], "AWS::EC2::Subnet")
        if any(tag["Key"] == "kubernetes.io/role/internal-elb" for tag in subnet["Tags"])
    ]
    assert len(set(tagged)) == 2


def test_closed_has_an_endpoint_for_each_service(closed: dict[str, Template], facts: Facts) -> None:
    made = list(of_type(closed["network"], "AWS::EC2::VPCEndpoint"))
    services = {item["ServiceName"].removeprefix("com.amazonaws.us-west-2.") for item in made}
    wanted = {name for name, row in facts.endpoints.items() if row.when != "fsx"}
    assert services == {"s3", "bedrock-runtime", *wanted} - {"sagemaker.runtime"}
    for item in made:
        if item["ServiceName"].endswith(".s3"):
            assert item["VpcEndpointType"] == "Gateway"
            continue
        assert (item["VpcEndpointType"], item["PrivateDnsEnabled"]) == ("Interface", True)
        assert len(item["SubnetIds"]) == 2


def test_certificates_need_their_endpoint_once_a_model_is_served(build: Callable[..., Any]) -> None:
    with_own = {"network.closed": True, "endpoint.certificate_arn": CERTIFICATE}
    served = [build("dev", {"network.closed": True}), build("dev", with_own)]
    nothing = build("dev", {"network.closed": True, "models": []}, models=[])

    assert all(endpoint(stacks["network"], "acm") for stacks in served)
    assert not [item for item in of_type(nothing["network"], "AWS::EC2::VPCEndpoint") if "acm" in str(item)]


def test_endpoints_open_for_tls_from_both_ranges_alone(closed: dict[str, Template]) -> None:
    (group,) = (
        item
        for item in of_type(closed["network"], "AWS::EC2::SecurityGroup")
        if item["GroupDescription"].startswith("Interface endpoints")
    )
    rules = [(rule["CidrIp"], rule["IpProtocol"], rule["FromPort"]) for rule in group["SecurityGroupIngress"]]
    assert rules == [("10.0.0.0/16", "tcp", 443), ("10.1.0.0/16", "tcp", 443)]
    # CDK writes "nothing" as a rule to an address that nobody has.
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]
    ranges = [ip_network(cidr) for cidr, _, _ in rules]
    nodes = [IPv4Network(subnet["CidrBlock"]) for subnet in of_type(closed["network"], "AWS::EC2::Subnet")]
    assert all(any(subnet.subnet_of(cidr) for cidr in ranges) for subnet in nodes)


@pytest.mark.parametrize(
    ("service", "condition"),
    [
        ("ecr.dkr", {"aws:PrincipalAccount": OWN}),
        ("logs", {"aws:PrincipalAccount": OWN, "aws:ResourceAccount": OWN}),
        ("bedrock-runtime", {"aws:PrincipalAccount": OWN}),
    ],
)
def test_endpoints_serve_this_account(
    closed: dict[str, Template], service: str, condition: dict[str, Any]
) -> None:
    assert allowed(endpoint(closed["network"], service)["PolicyDocument"]) == [("*", "*", condition)]


def test_pods_take_roles_of_this_account_before_they_are_anybody(closed: dict[str, Template]) -> None:
    assert allowed(endpoint(closed["network"], "sts")["PolicyDocument"]) == [
        ("*", "*", {"aws:PrincipalAccount": OWN}),
        ("sts:AssumeRoleWithWebIdentity", "*", {"aws:ResourceAccount": OWN}),
    ]


def test_only_documented_callers_are_left_open(closed: dict[str, Template], facts: Facts) -> None:
    without = {
        item["ServiceName"].removeprefix("com.amazonaws.us-west-2.")
        for item in of_type(closed["network"], "AWS::EC2::VPCEndpoint")
        if "PolicyDocument" not in item
    }
    opened = {name for name, row in facts.endpoints.items() if row.policy == "open"}
    assert without == opened
    assert all(not facts.endpoints[name].confirmed and facts.endpoints[name].note for name in opened)


def test_s3_lets_through_own_buckets_the_weights_and_buckets_of_aws(closed: dict[str, Template]) -> None:
    own, weights, *services = allowed(endpoint(closed["network"], "s3")["PolicyDocument"])
    assert own == ("s3:*", "*", {"aws:PrincipalAccount": OWN, "aws:ResourceAccount": OWN})
    assert weights[0] == ["s3:GetObject", "s3:ListBucket"]
    assert weights[1][0] == "arn:aws:s3:::weights-of-another-account"
    assert weights[2] == {"aws:PrincipalAccount": OWN}
    reach = {
        arn: action for action, arns, _ in services for arn in ([arns] if isinstance(arns, str) else arns)
    }
    assert reach["arn:aws:s3:::prod-us-west-2-starport-layer-bucket/*"] == "s3:GetObject"
    assert reach["arn:aws:s3:::cloudformation-custom-resource-response-uswest2/*"] == "s3:PutObject"
    assert all(arn.endswith("/*") and not arn.startswith("arn:aws:s3:::*") for arn in reach)


def test_an_open_network_has_no_interface_endpoint(
    environment_stacks: dict[str, dict[str, Template]],
) -> None:
    for stacks in environment_stacks.values():
        (only,) = of_type(stacks["network"], "AWS::EC2::VPCEndpoint")
        assert only["VpcEndpointType"] == "Gateway"


def test_nodes_pull_nothing_but_copies(site: Path, closed: dict[str, Template], facts: Facts) -> None:
    manifest = (site / "closed/manifests/llama-3-3-70b.yaml").read_text()
    assert (
        f"image: {REGISTRY}/dpd/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1@{DIGEST}" in manifest
    )
    (chart,) = of_type(closed["hyperpod"], "Custom::HyperPodBaseChart")
    values = json.loads(chart["Variables"]["VALUES"])
    for row in facts.chart_images.values():
        source, _, tag = row.reference.partition(":")
        assert lookup(values, row.repository_key) == f"{REGISTRY}/dpd/{source.partition('/')[2]}"
        assert lookup(values, row.tag_key) == f"{tag}@{DIGEST}"
    assert values["nvidia-device-plugin"]["devicePlugin"] == {"enabled": True}


def lookup(values: Template, key: str) -> Any:
    node: Any = values
    for part in key.split("."):
        node = node[part]
    return node


def test_an_open_network_leaves_the_chart_its_images(
    environment_stacks: dict[str, dict[str, Template]],
) -> None:
    (chart,) = of_type(environment_stacks["dev"]["hyperpod"], "Custom::HyperPodBaseChart")
    values = json.loads(chart["Variables"]["VALUES"])
    assert "image" not in values["nvidia-device-plugin"]
    assert chart["Variables"]["REPOSITORY"].startswith("https://github.com/")


def test_the_chart_comes_from_the_bucket_with_its_digest(closed: dict[str, Template]) -> None:
    (chart,) = of_type(closed["hyperpod"], "Custom::HyperPodBaseChart")
    variables = chart["Variables"]
    assert variables["REPOSITORY"] == f"s3://dpd-closed-mirror/charts/{variables['COMMIT']}.tar"
    assert variables["ARCHIVE_SHA256"] == CHART_SHA256
    reads = [
        statement["Resource"]
        for policy in of_type(closed["hyperpod"], "AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if "charts/" in json.dumps(statement["Resource"])
    ]
    assert reads == [f"arn:aws:s3:::dpd-closed-mirror/charts/{variables['COMMIT']}.tar"]


def test_lustre_passes_between_nodes_and_the_file_system(closed: dict[str, Template]) -> None:
    network = closed["network"]
    system = "sg-5123456789abcdef0"
    rules = of_type(network, "AWS::EC2::SecurityGroupIngress")
    into = {(rule["FromPort"], rule["ToPort"]) for rule in rules if rule["GroupId"] == system}
    back = {
        (rule["FromPort"], rule["ToPort"]) for rule in rules if rule.get("SourceSecurityGroupId") == system
    }
    out = {
        (rule["FromPort"], rule["ToPort"])
        for rule in of_type(network, "AWS::EC2::SecurityGroupEgress")
        if rule.get("DestinationSecurityGroupId") == system
    }
    assert into == back == out == {(988, 988), (1018, 1023)}


def test_the_placement_group_is_exported_and_passed_on(site: Path, closed: dict[str, Template]) -> None:
    (group,) = of_type(closed["network"], "AWS::EC2::PlacementGroup")
    assert group["Strategy"] == "cluster"
    exports = {row["Export"]["Name"]: row for row in closed["network"]["Outputs"].values() if "Export" in row}
    assert "HyperPod nodes cannot join it" in exports["dpd-closed-placement-group"]["Description"]
    assert "usw2-az1" in exports["dpd-closed-placement-group"]["Description"]
    model = json.dumps(closed["model-llama-3-3-70b"])
    assert 'placementGroup\\":\\"' in model
    assert "PlacementGroup" in json.dumps([name for name in exports if name in model])
    manifest = yaml.safe_load_all((site / "closed/manifests/llama-3-3-70b.yaml").read_text())
    topology = list(manifest)[1]["spec"]["pdSpec"]["topologySpec"]
    assert topology["placementGroup"] == "${dpd-closed-placement-group}"


def test_no_model_names_a_placement_group_unasked(environment_stacks: dict[str, dict[str, Template]]) -> None:
    for stacks in environment_stacks.values():
        for name, template in stacks.items():
            assert "lacementGroup" not in json.dumps(template), name
