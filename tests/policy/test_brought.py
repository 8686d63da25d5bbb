"""An environment that brings everything along: what exists is used, and never made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
Template = dict[str, Any]


@pytest.fixture(scope="module")
def site(site_bundles: Any) -> Path:
    return site_bundles.folder


@pytest.fixture(scope="module")
def brought(site: Path) -> dict[str, Template]:
    return {
        path.name.removeprefix("dpd-brought-").removesuffix(".template.json"): json.loads(path.read_text())
        for path in (site / "brought/cdk").glob("*.template.json")
    }


def of_type(template: Template, kind: str) -> list[Template]:
    return [item["Properties"] for item in template["Resources"].values() if item["Type"] == kind]


def kinds(stacks: dict[str, Template]) -> set[str]:
    return {item["Type"] for template in stacks.values() for item in template["Resources"].values()}


MADE = (
    "AWS::EC2::VPC",
    "AWS::EC2::Subnet",
    "AWS::EC2::SecurityGroup",
    "AWS::EKS::Cluster",
    "AWS::S3::Bucket",
)


def test_what_exists_is_not_made(brought: dict[str, Template]) -> None:
    found = kinds(brought)
    assert not set(MADE) & found
    assert not {kind for kind in found if kind.startswith("AWS::EC2::")}
    assert "AWS::IAM::OIDCProvider" not in found


def test_every_stack_has_something_to_deploy(brought: dict[str, Template]) -> None:
    assert all(template["Resources"] for template in brought.values())
    for part in ("network", "weights"):
        assert {item["Type"] for item in brought[part]["Resources"].values()} == {
            "AWS::CloudFormation::WaitConditionHandle"
        }


def test_nodes_stand_in_the_existing_network(brought: dict[str, Template]) -> None:
    (cluster,) = of_type(brought["hyperpod"], "AWS::SageMaker::Cluster")
    assert cluster["VpcConfig"] == {
        "SecurityGroupIds": ["sg-0123456789abcdef0", "sg-1123456789abcdef0"],
        "Subnets": ["subnet-0123456789abcdef0"],
    }
    text = json.dumps(of_type(brought["hyperpod"], "AWS::IAM::Role"))
    for part in (
        "subnet/subnet-0123456789abcdef0",
        "security-group/sg-0123456789abcdef0",
        "group/sg-1123456789abcdef0",
    ):
        assert part in text


def test_functions_and_build_reach_the_existing_endpoint(brought: dict[str, Template]) -> None:
    (build,) = of_type(brought["hyperpod"], "AWS::CodeBuild::Project")
    assert build["VpcConfig"]["VpcId"] == "vpc-0123456789abcdef0"
    assert build["VpcConfig"]["SecurityGroupIds"] == ["sg-2123456789abcdef0"]
    functions = of_type(brought["cluster"], "AWS::Lambda::Function")
    handler = next(item for item in functions if "kubectl" in item["Description"])
    assert handler["Role"] == "arn:aws:iam::111122223333:role/kubectl"
    for item in functions:
        assert item["VpcConfig"]["SubnetIds"] == ["subnet-1123456789abcdef0", "subnet-2123456789abcdef0"]


def test_pods_take_roles_through_the_existing_provider(brought: dict[str, Template]) -> None:
    provider = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
    federated = [
        statement["Principal"]["Federated"]
        for role in of_type(brought["operator"], "AWS::IAM::Role")
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if "Federated" in statement["Principal"]
    ]
    assert len(federated) >= 4
    assert set(federated) == {provider}


def test_people_and_build_get_access_entries(brought: dict[str, Template]) -> None:
    entries = [item for template in brought.values() for item in of_type(template, "AWS::EKS::AccessEntry")]
    assert {entry["ClusterName"] for entry in entries} == {"ours"}
    assert "arn:aws:iam::111122223333:role/operators" in [entry["PrincipalArn"] for entry in entries]


def test_removal_of_the_chart_fails_aloud_in_a_cluster_that_stays(brought: dict[str, Template]) -> None:
    (project,) = of_type(brought["hyperpod"], "AWS::CodeBuild::Project")
    variables = {item["Name"]: item["Value"] for item in project["Environment"]["EnvironmentVariables"]}
    assert variables["CLUSTER_IS_OURS"] == "false"


def test_add_ons_that_are_there_are_not_installed_again(brought: dict[str, Template]) -> None:
    names = {
        item["AddonName"] for template in brought.values() for item in of_type(template, "AWS::EKS::Addon")
    }
    assert not {"cert-manager", "metrics-server", "vpc-cni", "coredns"} & names
    assert {"aws-mountpoint-s3-csi-driver", "amazon-sagemaker-hyperpod-inference"} <= names


def test_pods_read_the_existing_bucket_and_its_key(brought: dict[str, Template], site: Path) -> None:
    (role,) = (
        item
        for item in of_type(brought["operator"], "AWS::IAM::Role")
        if "s3-csi-driver-sa" in item.get("Description", "")
    )
    text = json.dumps(role["Policies"])
    assert "our-weights/Llama-3.3-70B-Instruct/*" in text
    assert KEY in text
    assert "bucketName: our-weights" in (site / "brought/manifests/llama-3-3-70b.yaml").read_text()


def test_existing_parts_hold_no_zone_of_an_account(brought: dict[str, Template]) -> None:
    text = json.dumps(brought)
    assert "Fn::GetAZs" not in text
    assert "dummy1" not in text
    assert "usw2-az1" not in json.dumps(brought["cluster"])


@pytest.mark.parametrize("closed", [False, True])
def test_a_new_cluster_in_an_existing_network(
    site_bundles: Any, build: Callable[..., dict[str, Template]], *, closed: bool
) -> None:
    existing = site_bundles.catalog.environments["brought"].value.network.existing
    network = {"existing": existing.model_dump(mode="json"), "closed": closed}
    stacks = build("dev", {f"network.{key}": value for key, value in network.items()})
    (cluster,) = of_type(stacks["cluster"], "AWS::EKS::Cluster")
    assert cluster["ResourcesVpcConfig"]["SubnetIds"] == list(existing.control_plane_subnet_ids)
    assert cluster["ResourcesVpcConfig"]["SecurityGroupIds"] == [existing.security_groups[0].id]
    assert not {kind for kind in kinds(stacks) if kind.startswith("AWS::EC2::")}
