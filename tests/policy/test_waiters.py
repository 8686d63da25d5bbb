"""The waits for devices and add-ons: what they ask, with which rights, for how long, beside what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Template = dict[str, Any]
Stacks = dict[str, dict[str, Template]]


@pytest.fixture(params=["dev", "staging", "prod"])
def operator(request: pytest.FixtureRequest, environment_stacks: Stacks) -> Template:
    return environment_stacks[request.param]["operator"]


def of_type(template: Template, kind: str) -> dict[str, Template]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def the(template: Template, kind: str) -> Template:
    (resource,) = of_type(template, kind).values()
    return resource


def statements_of(template: Template, role: str) -> list[dict[str, Any]]:
    """Return what a role of our own may do, without the writing of its logs."""
    return [
        statement
        for name, policy in of_type(template, "AWS::IAM::Policy").items()
        if name.startswith(role)
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "logs:PutLogEvents" not in str(statement["Action"])
    ]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_devices_are_those_of_the_instance_facts(operator: Template) -> None:
    groups = the(operator, "Custom::GpuDevicesReady")["Properties"]["Groups"]

    assert [group["Name"] for group in groups] == ["prefill", "decode"]
    for group in groups:
        assert group["Devices"] == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
        assert group["Label"] == "hyperpod-dpd/role"


def test_whoever_asks_for_devices_may_read_nodes_and_nothing_else(operator: Template) -> None:
    entry = the(operator, "AWS::EKS::AccessEntry")["Properties"]
    manifests = [
        manifest
        for item in of_type(operator, "Custom::AWSCDK-EKS-KubernetesResource").values()
        for manifest in json.loads(item["Properties"]["Manifest"])
    ]
    role, binding = manifests

    assert "AccessPolicies" not in entry
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == entry["KubernetesGroups"]


def test_aws_lets_the_asker_describe_one_cluster_and_have_interfaces(operator: Template) -> None:
    allowed = {
        action: statement["Resource"]
        for statement in statements_of(operator, "DevicesReadyWaiterIsComplete")
        for action in listed(statement["Action"])
    }

    assert "EksCluster" in str(allowed.pop("eks:DescribeCluster"))
    assert sorted(allowed) == [
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ]


def test_the_asker_runs_where_the_private_endpoint_is(operator: Template) -> None:
    functions = of_type(operator, "AWS::Lambda::Function")
    placed = [name for name, item in functions.items() if "VpcConfig" in item["Properties"]]

    assert len(placed) == 1
    assert placed[0].startswith("DevicesReadyWaiterIsComplete")
    config = functions[placed[0]]["Properties"]["VpcConfig"]
    assert "ControlPlaneSubnet" in str(config["SubnetIds"])
    assert "ClusterSecurityGroupId" in str(config["SecurityGroupIds"])


def test_access_comes_before_the_question(operator: Template) -> None:
    needs = the(operator, "Custom::GpuDevicesReady")["DependsOn"]

    assert set(of_type(operator, "AWS::EKS::AccessEntry")) < set(needs)
    assert any(name.startswith("DevicesReadyNodeReaders") for name in needs)


def test_devices_are_counted_beside_the_addons_and_not_after_them(operator: Template) -> None:
    addons = set(of_type(operator, "AWS::EKS::Addon"))

    for name, item in operator["Resources"].items():
        if name.startswith("DevicesReady"):
            assert not addons & set(item.get("DependsOn", []))


def test_every_addon_of_the_stacks_must_be_active_in_the_end(
    operator: Template, environment_stacks: Stacks
) -> None:
    wanted = the(operator, "Custom::EksAddonsActive")["Properties"]["Addons"]
    declared = [
        item["Properties"]["AddonName"]
        for template in (environment_stacks["dev"]["cluster"], operator)
        for item in of_type(template, "AWS::EKS::Addon").values()
    ]

    assert sorted(wanted) == sorted(declared)
    assert len(wanted) == 9


def test_addons_are_asked_after_the_last_of_them(operator: Template) -> None:
    (inference,) = (
        name
        for name, item in of_type(operator, "AWS::EKS::Addon").items()
        if item["Properties"]["AddonName"] == "amazon-sagemaker-hyperpod-inference"
    )

    assert the(operator, "Custom::EksAddonsActive")["DependsOn"] == [inference]
    for name, item in of_type(operator, "AWS::Lambda::Function").items():
        if name.startswith("AddonsActive"):
            assert inference not in item["DependsOn"], "functions need not wait for the add-on"


def test_reading_addons_is_limited_to_this_cluster_and_these_addons(operator: Template) -> None:
    (statement,) = statements_of(operator, "AddonsActiveWaiterIsComplete")

    assert statement["Action"] == "eks:DescribeAddon"
    assert len(statement["Resource"]) == 9
    assert all(str(resource).count("*") == 1 for resource in statement["Resource"])


def test_an_existing_clusters_own_addons_are_its_owners_business(build: Callable[..., Stacks]) -> None:
    existing = {
        "cluster_name": "theirs",
        "kubectl_role_arn": "arn:aws:iam::111122223333:role/kubectl",
        "oidc_provider_arn": (
            "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
        ),
        "security_group_id": "sg-0123456789abcdef0",
    }
    network = {
        "vpc_id": "vpc-0123456789abcdef0",
        "gpu_subnet_id": "subnet-0123456789abcdef0",
        "control_plane_subnet_ids": ["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
        "security_groups": [{"id": "sg-0123456789abcdef1", "self_ingress": True, "self_egress": True}],
    }
    changes = {"kubernetes.existing": existing, "network.existing": network}
    operator = build("dev", changes, models=[])["operator"]

    wanted = the(operator, "Custom::EksAddonsActive")["Properties"]["Addons"]
    assert "coredns" not in wanted
    assert "amazon-sagemaker-hyperpod-inference" in wanted


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [("Custom::GpuDevicesReady", "DevicesReady"), ("Custom::EksAddonsActive", "AddonsActive")],
)
def test_a_wait_can_tell_its_reason_before_the_framework_gives_up(
    operator: Template, kind: str, prefix: str
) -> None:
    timeout_s = the(operator, kind)["Properties"]["TimeoutSeconds"]
    (machine,) = (
        "".join(
            part if isinstance(part, str) else "arn"
            for part in item["Properties"]["DefinitionString"]["Fn::Join"][1]
        )
        for name, item in of_type(operator, "AWS::StepFunctions::StateMachine").items()
        if name.startswith(prefix)
    )
    retry = json.loads(machine)["States"]["framework-isComplete-task"]["Retry"][0]

    assert timeout_s < retry["IntervalSeconds"] * retry["MaxAttempts"] <= 3600
