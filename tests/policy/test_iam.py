"""What holds of every role of every environment, whichever construct made it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dpd.iam_reference import DOCUMENT, current_document, environment_roles
from dpd.iam_roles import Role, Statement, readable, without_hashes
from dpd.validation.explained import explained

NAMESPACE = "hyperpod-inference-system"
SUBJECTS = {
    f"system:serviceaccount:{NAMESPACE}:hyperpod-inference-controller-manager",
    f"system:serviceaccount:{NAMESPACE}:aws-load-balancer-controller",
    f"system:serviceaccount:{NAMESPACE}:keda-operator",
    "system:serviceaccount:kube-system:s3-csi-driver-sa",
    "system:serviceaccount:kube-system:fsx-csi-controller-sa",
}
OBJECT_ACTION = re.compile(r"s3:(Get|Put|Delete|Restore)Object|s3:AbortMultipartUpload")


@pytest.fixture(scope="module")
def every_environment(environment_app: Any, full_app: Any) -> dict[str, list[Role]]:
    apps = dict.fromkeys(("dev", "staging", "prod"), environment_app) | {"full": full_app}
    return {name: environment_roles(app, name) for name, app in apps.items()}


@pytest.fixture(params=["dev", "staging", "prod", "full"])
def roles(request: pytest.FixtureRequest, every_environment: dict[str, list[Role]]) -> list[Role]:
    return every_environment[request.param]


def made_by_cdk(path: str) -> bool:
    return "/Provider/" in path or "KubectlProvider/" in path


def statements(roles: list[Role]) -> list[Statement]:
    return [statement for role in roles for statement in role.statements]


def test_every_star_has_a_reason(roles: list[Role]) -> None:
    from dpd_constructs.reasons import reasons

    in_file = {path for rule, path in explained()[0] if rule.startswith("AwsSolutions-IAM5")}
    bare = [
        (statement.policy, statement.actions)
        for statement in statements(roles)
        if statement.open and statement.sid not in reasons() and statement.policy not in in_file
    ]
    assert bare == []


def test_no_statement_of_ours_leans_on_the_file(roles: list[Role]) -> None:
    in_file = {path for rule, path in explained()[0] if rule.startswith("AwsSolutions-IAM5")}
    # CodeBuild's own rights stand in the policies of the role that we gave it.
    build = "hyperpod/BaseChart/Build"
    assert {path for path in in_file if not made_by_cdk(path) and not path.startswith(build)} == set()


def test_no_action_is_open_in_a_role_of_ours(roles: list[Role]) -> None:
    granted = {
        action
        for statement in statements(roles)
        if not made_by_cdk(statement.policy) and not statement.policy.startswith("hyperpod/BaseChart/Build")
        for action in statement.actions
    }
    assert granted
    assert {action for action in granted if "*" in action} == set()


def test_nothing_is_allowed_on_everything_without_being_unscopable(roles: list[Role]) -> None:
    verbs = {
        action.partition(":")[2]
        for statement in statements(roles)
        if "*" in statement.resources and not statement.policy.startswith("hyperpod/BaseChart/Build")
        for action in statement.actions
    }
    writing = {verb for verb in verbs if not verb.startswith(("Describe", "Get", "List"))}
    assert writing == {
        "AssignPrivateIpAddresses",
        "AssociateWebACL",
        "CreateNetworkInterface",
        "CreateProtection",
        "DeleteNetworkInterface",
        "DeleteNetworkInterfacePermission",
        "DeleteProtection",
        "DisassociateWebACL",
        "UnassignPrivateIpAddresses",
    }


def test_object_actions_name_objects_and_bucket_actions_a_bucket(roles: list[Role]) -> None:
    """Report P-07: reading objects was granted on the bucket's own name."""
    seen = 0
    for statement in statements(roles):
        object_actions = [action for action in statement.actions if OBJECT_ACTION.match(action)]
        on_objects = [resource for resource in statement.resources if "/" in resource]
        if object_actions:
            seen += 1
            assert on_objects, statement
        if object_actions and not any("*" in action for action in statement.actions):
            assert len(on_objects) == len(statement.resources), statement
        if statement.actions == ("s3:ListBucket",):
            assert not on_objects, statement
    assert seen >= 4


def test_roles_are_passed_by_name_to_one_service(roles: list[Role]) -> None:
    for statement in statements(roles):
        if "iam:PassRole" in statement.actions:
            assert statement.actions == ("iam:PassRole",)
            assert not [resource for resource in statement.resources if "*" in resource]
            assert "iam:PassedToService" in str(statement.condition)


def test_every_web_identity_has_one_exact_subject_and_audience(roles: list[Role]) -> None:
    subjects: list[str] = []
    for role in roles:
        for statement in role.trust:
            if statement["Action"] != "sts:AssumeRoleWithWebIdentity":
                assert statement["Action"] == "sts:AssumeRole"
                assert set(statement["Principal"]) == {"Service"}
                continue
            assert set(statement["Condition"]) == {"StringEquals"}
            condition = statement["Condition"]["StringEquals"]
            assert set(condition) == {"<issuer>:aud", "<issuer>:sub"}
            assert condition["<issuer>:aud"] == "sts.amazonaws.com"
            subjects.append(condition["<issuer>:sub"])
    assert sorted(subjects) == sorted(SUBJECTS)


def test_keys_are_used_through_one_service_or_for_aws_alone(roles: list[Role]) -> None:
    limited = [
        statement
        for statement in statements(roles)
        if any(action.startswith("kms:") for action in statement.actions)
        and not made_by_cdk(statement.policy)
        and not statement.policy.startswith("hyperpod/BaseChart/Build")
    ]
    assert limited
    for statement in limited:
        harmless = statement.actions == ("kms:DescribeKey",)
        text = str(statement.condition)
        assert harmless or "kms:ViaService" in text or "kms:GrantIsForAWSResource" in text, statement


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == current_document(), "run `make docs`"


def test_the_document_has_every_role_and_every_kind_of_statement(roles: list[Role]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    actions = {action for statement in statements(roles) for action in statement.actions}

    assert [role.path for role in roles if f"## {role.path.removesuffix('/Resource')}\n" not in text] == []
    assert sorted(action for action in actions if f"`{action}`" not in text) == []


def test_a_statement_has_one_reason() -> None:
    from dpd_constructs.reasons import wildcard

    wildcard("TestStatement", "The first reason.", actions=["ec2:DescribeVpcs"])
    with pytest.raises(
        ValueError, match=r"TestStatement has two reasons: 'The first reason\.' and 'Other\.'"
    ):
        wildcard("TestStatement", "Other.", actions=["ec2:DescribeVpcs"])


def test_intrinsic_functions_read_as_what_they_stand_for() -> None:
    resources = {"Bucket0123ABCD": {"Type": "AWS::S3::Bucket"}}
    join = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":", {"Fn::Split": ["/", "a"]}]]}
    assert readable(join, resources) == 'arn:<AWS::Partition>:<Fn::Split ["/", "a"]>'
    assert readable({"Fn::GetAtt": ["Bucket0123ABCD", "Arn"]}, resources) == "<Bucket.Arn>"
    assert readable({"Fn::Sub": "arn:${AWS::Partition}:s3"}, resources) == "arn:<AWS::Partition>:s3"
    assert readable({"Fn::If": ["Is", "yes", "no"]}, resources) == "yes"
    assert (
        without_hashes("dpd-AWS679f53fac002430cb0da5b7982bd2287") == "dpd-AWS679f53fac002430cb0da5b7982bd2287"
    )
