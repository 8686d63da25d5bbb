"""Roles and buckets, made on a local IAM and S3 out of the templates' own properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

BUCKETS = ("AWS::S3::Bucket", "AWS::S3::BucketPolicy")
IDENTITY = ("AWS::IAM::Role", "AWS::IAM::Policy")


@pytest.fixture(scope="module")
def roles(lab: Any) -> dict[str, str]:
    """Return the names of all roles of dev; IAM checks the grammar of every policy as it takes it."""
    made = lab.make(*IDENTITY)
    return {name: made[name] for name in lab.properties("AWS::IAM::Role")}


def trust(lab: Any, name: str) -> list[dict[str, Any]]:
    return lab.iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]["Statement"]


def test_iam_takes_every_role_and_policy(lab: Any, roles: dict[str, str]) -> None:
    assert len(roles) > 30
    for name in roles.values():
        for policy in lab.iam.list_role_policies(RoleName=name)["PolicyNames"]:
            document = lab.iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            assert document["Statement"]


def test_iam_refuses_a_policy_that_is_wrong(lab: Any, roles: dict[str, str]) -> None:
    """The check above can fail: a statement without an action does not pass."""
    wrong = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "nowhere"}]}
    name = next(iter(roles.values()))

    with pytest.raises(ClientError, match="MalformedPolicyDocument"):
        lab.iam.put_role_policy(RoleName=name, PolicyName="wrong", PolicyDocument=json.dumps(wrong))


@pytest.mark.parametrize(
    ("part", "service"),
    [
        ("ExecutionRoleCDF74862", "sagemaker.amazonaws.com"),
        ("EksClusterRole", "eks.amazonaws.com"),
        ("BaseChartBuildRole", "codebuild.amazonaws.com"),
        ("NodesReadyWaiterIsCompleteRole", "lambda.amazonaws.com"),
        ("KubernetesWaitsWaiterIsCompleteRole", "lambda.amazonaws.com"),
    ],
)
def test_services_assume_their_own_roles_alone(
    lab: Any, roles: dict[str, str], part: str, service: str
) -> None:
    (name,) = (value for logical_id, value in roles.items() if logical_id.startswith(part))

    (statement,) = trust(lab, name)
    assert statement["Principal"] == {"Service": service}
    assert statement["Action"] == "sts:AssumeRole"


@pytest.mark.parametrize(
    ("part", "account"),
    [
        ("DependenciesS3CsiRole", "kube-system:s3-csi-driver-sa"),
        ("DependenciesFsxCsiRole", "kube-system:fsx-csi-controller-sa"),
        ("OperatorAlbRole", "hyperpod-inference-system:aws-load-balancer-controller"),
        ("OperatorKedaRole", "hyperpod-inference-system:keda-operator"),
        ("OperatorExecutionRole", "hyperpod-inference-system:hyperpod-inference-controller-manager"),
    ],
)
def test_one_service_account_assumes_a_role_through_the_clusters_provider(
    lab: Any, roles: dict[str, str], part: str, account: str
) -> None:
    (name,) = (value for logical_id, value in roles.items() if logical_id.startswith(part))
    (statement,) = (row for row in trust(lab, name) if row["Action"] == "sts:AssumeRoleWithWebIdentity")

    assert ":oidc-provider/" in statement["Principal"]["Federated"]
    claims = {key.rpartition(":")[2]: value for key, value in statement["Condition"]["StringEquals"].items()}
    assert claims == {"aud": "sts.amazonaws.com", "sub": f"system:serviceaccount:{account}"}


@pytest.fixture(scope="module")
def buckets(lab: Any) -> list[str]:
    made = lab.make(*BUCKETS)
    return [made[name] for name in lab.properties("AWS::S3::Bucket")]


def test_s3_takes_every_name(lab: Any, buckets: list[str]) -> None:
    listed = {row["Name"] for row in lab.s3.list_buckets()["Buckets"]}

    assert set(buckets) <= listed
    assert len(buckets) == 4


def test_buckets_block_whatever_is_public(lab: Any, buckets: list[str]) -> None:
    for bucket in buckets:
        block = lab.s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        assert block == dict.fromkeys(
            ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
        )


def test_buckets_keep_versions(lab: Any, buckets: list[str]) -> None:
    for bucket in buckets:
        assert lab.s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"


def test_buckets_refuse_plain_http(lab: Any, buckets: list[str]) -> None:
    for bucket in buckets:
        policy = json.loads(lab.s3.get_bucket_policy(Bucket=bucket)["Policy"])
        denied = [row for row in policy["Statement"] if row["Effect"] == "Deny"]
        conditions = [row["Condition"] for row in denied]
        assert {"Bool": {"aws:SecureTransport": "false"}} in conditions
        for row in denied:
            assert set(row["Resource"]) == {f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"}


def test_nobody_outside_the_account_is_let_in(lab: Any, buckets: list[str]) -> None:
    for bucket in buckets:
        policy = json.loads(lab.s3.get_bucket_policy(Bucket=bucket)["Policy"])
        for row in policy["Statement"]:
            if row["Effect"] == "Allow":
                assert row["Principal"] == {"Service": "logging.s3.amazonaws.com"}
                assert "aws:SourceAccount" in row["Condition"]["StringEquals"]
