"""Encryption, access logs, retention, and what outlives a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd.spec.guard import Encryption

Template = dict[str, Any]
Stacks = dict[str, Template]

STATEFUL = {"AWS::S3::Bucket", "AWS::KMS::Key", "AWS::Logs::LogGroup"}


@pytest.fixture(params=["dev", "staging", "prod"])
def environment(request: pytest.FixtureRequest, catalog: Catalog) -> Environment:
    value = catalog.environments[request.param].value
    assert value is not None
    return value


@pytest.fixture
def stacks(environment: Environment, environment_stacks: dict[str, Stacks]) -> Stacks:
    return environment_stacks[environment.name]


def of_type(stacks: Stacks, kind: str) -> dict[str, Template]:
    return {
        f"{stack}/{name}": item
        for stack, template in stacks.items()
        for name, item in template["Resources"].items()
        if item["Type"] == kind
    }


def key_of(reference: Any) -> str:
    """Return the name of the key that a property refers to, in its own stack or another."""
    text = json.dumps(reference)
    (name,) = (name for name in ("BucketsKey", "LogsKey", "NodeVolumesKey", "SecretsKey") if name in text)
    return name


def test_there_is_one_key_for_each_purpose_and_each_rotates(stacks: Stacks) -> None:
    keys = of_type(stacks, "AWS::KMS::Key")
    assert sorted(key_of(name) for name in keys) == ["BucketsKey", "LogsKey", "NodeVolumesKey", "SecretsKey"]
    assert all(key["Properties"]["EnableKeyRotation"] is True for key in keys.values())


def test_data_is_under_the_bucket_key_and_access_logs_under_that_of_s3(stacks: Stacks) -> None:
    for name, bucket in of_type(stacks, "AWS::S3::Bucket").items():
        (rule,) = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        default = rule["ServerSideEncryptionByDefault"]
        if "AccessLogs" in name:
            assert default == {"SSEAlgorithm": "AES256"}
        else:
            assert default["SSEAlgorithm"] == "aws:kms"
            assert key_of(default["KMSMasterKeyID"]) == "BucketsKey"
            assert rule["BucketKeyEnabled"] is True, "each object would be a request to KMS"


def test_every_access_is_logged_in_one_bucket_below_a_folder_of_its_own(stacks: Stacks) -> None:
    folders: list[str] = []
    for name, bucket in of_type(stacks, "AWS::S3::Bucket").items():
        logging = bucket["Properties"].get("LoggingConfiguration")
        if "AccessLogs" in name:
            assert logging is None, "a bucket that logs into itself never stops"
            continue
        assert "AccessLogs" in json.dumps(logging["DestinationBucketName"]), name
        folders.append(logging["LogFilePrefix"])
    assert sorted(folders) == ["LifecycleBucket/", "TlsBucket/", "Weights/"]


def test_only_buckets_of_the_account_may_log(stacks: Stacks) -> None:
    policies = of_type({"security": stacks["security"]}, "AWS::S3::BucketPolicy")
    (policy,) = policies.values()
    (grant,) = (
        statement
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    )
    assert grant["Principal"] == {"Service": "logging.s3.amazonaws.com"}
    assert grant["Action"] == "s3:PutObject"
    assert grant["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_every_bucket_is_private_and_speaks_tls_only(stacks: Stacks) -> None:
    buckets = of_type(stacks, "AWS::S3::Bucket")
    assert len(buckets) == 4
    for name, bucket in buckets.items():
        properties = bucket["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}, name
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}, name
    policies = of_type(stacks, "AWS::S3::BucketPolicy")
    assert len(policies) == len(buckets)
    for policy in policies.values():
        text = json.dumps(policy)
        assert '"aws:SecureTransport": "false"' in text
        assert '"s3:TlsVersion": 1.2' in text


def test_every_log_group_is_encrypted_and_ends(stacks: Stacks) -> None:
    groups = of_type(stacks, "AWS::Logs::LogGroup")
    assert len(groups) >= 6
    for name, group in groups.items():
        assert key_of(group["Properties"]["KmsKeyId"]) == "LogsKey", name
        assert group["Properties"]["RetentionInDays"] == 30, name


def test_logs_of_the_account_alone_may_use_their_key(stacks: Stacks) -> None:
    (key,) = (item for name, item in of_type(stacks, "AWS::KMS::Key").items() if "LogsKey" in name)
    (grant,) = (
        statement
        for statement in key["Properties"]["KeyPolicy"]["Statement"]
        if "Service" in statement["Principal"]
    )
    assert "logs." in json.dumps(grant["Principal"])
    arn = grant["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]["Fn::Join"][1]
    assert arn[-1] == ":log-group:*"
    assert {"Ref": "AWS::AccountId"} in arn


def test_node_volumes_are_under_their_key_without_a_size(stacks: Stacks) -> None:
    """A root volume with a key takes no size (developer guide, page smcluster-cmk)."""
    (cluster,) = of_type(stacks, "AWS::SageMaker::Cluster").values()
    assert cluster["Properties"]["NodeProvisioningMode"] == "Continuous"
    for group in cluster["Properties"]["InstanceGroups"]:
        (root,) = (
            config["EbsVolumeConfig"]
            for config in group["InstanceStorageConfigs"]
            if config["EbsVolumeConfig"].get("RootVolume")
        )
        assert set(root) == {"RootVolume", "VolumeKmsKeyId"}
        assert key_of(root["VolumeKmsKeyId"]) == "NodeVolumesKey"


def test_node_volume_key_asks_for_no_encryption_context(stacks: Stacks) -> None:
    (key,) = (item for name, item in of_type(stacks, "AWS::KMS::Key").items() if "NodeVolumesKey" in name)
    text = json.dumps(key["Properties"]["KeyPolicy"])
    assert "kms:ViaService" in text
    assert "EncryptionContext" not in text


# --- the log group that EKS makes ---


def calls(stacks: Stacks, event: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in of_type({"cluster": stacks["cluster"]}, "Custom::ServiceLogGroup").values():
        if event in item["Properties"]:
            value = item["Properties"][event]
            parts = value["Fn::Join"][1] if isinstance(value, dict) else [value]
            found.append(json.loads("".join(part if isinstance(part, str) else "token" for part in parts)))
    return found


def test_control_plane_logs_have_a_retention_and_our_key(environment: Environment, stacks: Stacks) -> None:
    by_action = {call["action"]: call for call in calls(stacks, "Create")}
    assert set(by_action) == {"createLogGroup", "putRetentionPolicy", "associateKmsKey"}
    assert {call["parameters"]["logGroupName"] for call in by_action.values()} == {
        f"/aws/eks/dpd-{environment.name}/cluster"
    }
    days = by_action["putRetentionPolicy"]["parameters"]["retentionInDays"]
    assert days == (365 if environment.protected else 30)


def test_node_logs_have_a_retention_and_our_key(environment: Environment, stacks: Stacks) -> None:
    makers = [
        item["Properties"]["Create"]
        for item in of_type({"hyperpod": stacks["hyperpod"]}, "Custom::ServiceLogGroup").values()
    ]
    text = json.dumps(makers)
    for action in ("createLogGroup", "putRetentionPolicy", "associateKmsKey"):
        assert action in text
    assert f"/aws/sagemaker/Clusters/dpd-{environment.name}/" in text
    assert '"Fn::Split": ["/", {"Fn::GetAtt": ["HyperPod' in text


def test_only_where_logs_go_may_a_log_group_be_deleted(environment: Environment, stacks: Stacks) -> None:
    assert ("logs:DeleteLogGroup" in json.dumps(stacks)) is not environment.protected


def test_a_log_group_that_exists_already_is_taken_over(stacks: Stacks) -> None:
    (make,) = (call for call in calls(stacks, "Create") if call["action"] == "createLogGroup")
    assert make["ignoreErrorCodesMatching"] == "ResourceAlreadyExistsException"


def test_control_plane_logs_go_only_where_nothing_is_protected(
    environment: Environment, stacks: Stacks
) -> None:
    actions = [call["action"] for call in calls(stacks, "Delete")]
    assert actions == ([] if environment.protected else ["deleteLogGroup"])


def test_cluster_finds_its_log_group(stacks: Stacks) -> None:
    (cluster,) = of_type({"cluster": stacks["cluster"]}, "AWS::EKS::Cluster").values()
    before = [name for name in cluster["DependsOn"] if name.startswith("EksLogs")]
    kinds = {stacks["cluster"]["Resources"][name]["Type"] for name in before}
    assert "Custom::ServiceLogGroup" in kinds


def test_default_security_group_loses_both_rules(stacks: Stacks) -> None:
    revoked = [
        json.loads("".join(part if isinstance(part, str) else "token" for part in value["Fn::Join"][1]))
        for item in of_type({"network": stacks["network"]}, "Custom::ClosedSecurityGroup").values()
        for value in [item["Properties"]["Create"]]
    ]
    rules = {call["action"]: call["parameters"]["IpPermissions"] for call in revoked}
    assert rules == {
        "revokeSecurityGroupIngress": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "token"}]}],
        "revokeSecurityGroupEgress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    }
    assert {call["ignoreErrorCodesMatching"] for call in revoked} == {"InvalidPermission.NotFound"}


# --- what stays when stacks go ---


@pytest.mark.parametrize("kind", sorted(STATEFUL))
def test_only_protected_environments_keep_what_holds_data(
    environment: Environment, stacks: Stacks, kind: str
) -> None:
    found = of_type(stacks, kind)
    assert found
    for name, item in found.items():
        wanted = "Retain" if environment.protected else "Delete"
        assert (item["DeletionPolicy"], item["UpdateReplacePolicy"]) == (wanted, wanted), name


def test_no_other_type_that_holds_data_is_made(stacks: Stacks) -> None:
    """A new type that holds data joins STATEFUL, or is shown here to hold none."""
    holding = ("::DynamoDB::", "::EFS::", "::FSx::", "::RDS::", "::SecretsManager::", "::SQS::", "::ECR::")
    kinds = {item["Type"] for template in stacks.values() for item in template["Resources"].values()}
    assert {kind for kind in kinds if any(part in kind for part in holding)} == set()


def test_keys_and_access_logs_are_made_first_and_go_last(
    environment_app: Any, environment: Environment
) -> None:
    artifacts = {stack.stack_name: stack for stack in environment_app.synth().stacks}
    prefix = f"dpd-{environment.name}-"

    def needs(name: str) -> set[str]:
        found = {item.id for item in artifacts[prefix + name].dependencies}
        return {item for item in found if not item.endswith(".assets")}

    assert needs("security") == set()
    for name in ("network", "weights"):
        assert f"{prefix}security" in needs(name)


# --- AWS's own keys ---


def test_without_keys_of_our_own_aws_s_own_encrypt(catalog: Catalog, tmp_path: Path) -> None:
    use_bundled_node()
    from stacks.environment import build_environment, new_app

    dev = catalog.environments["dev"].value
    assert dev is not None
    assert catalog.facts is not None
    plain = dev.model_copy(update={"encryption": Encryption(customer_managed=False)})
    app = new_app(tmp_path, builtin_cloud_formation_validation=False)
    build_environment(app, plain, [], catalog.facts)
    stacks = {item.stack_name.removeprefix("dpd-dev-"): item.template for item in app.synth().stacks}

    assert [key_of(name) for name in of_type(stacks, "AWS::KMS::Key")] == ["SecretsKey"]
    assert '"aws:kms"' not in json.dumps(stacks)
    assert '"VolumeKmsKeyId"' not in json.dumps(stacks)
    assert "associateKmsKey" not in json.dumps(stacks)
    statements = json.dumps(
        [item for kind in ("Role", "Policy") for item in of_type(stacks, f"AWS::IAM::{kind}").values()]
    )
    assert "kms:CreateGrant" not in statements
