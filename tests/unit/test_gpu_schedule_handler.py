"""The nightly schedule, fed with answers and checked requests of the SageMaker service model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.model import ServiceModel
from botocore.stub import Stubber

from dpd_constructs.handlers.gpu_schedule import handler

ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"
ROLE = "arn:aws:iam::111122223333:role/nodes"
LIFECYCLE = {"SourceS3Uri": "s3://sagemaker-dpd-dev/lifecycle/0/", "OnCreate": "on_create.sh"}
VOLUMES = [{"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": "key"}}]
WINDOW = {"ScheduleExpression": "cron(0 3 ? * SUN *)"}
VPC = {"SecurityGroupIds": ["sg-0123456789abcdef0"], "Subnets": ["subnet-0123456789abcdef0"]}
FIELDS = [
    "executionRole",
    "instanceCount",
    "instanceStorageConfigs.ebsVolumeConfig.volumeKmsKeyId",
    "instanceStorageConfigs.ebsVolumeConfig.volumeSizeInGb",
    "kubernetesConfig.labels",
    "kubernetesConfig.taints.effect",
    "lifeCycleConfig.onCreate",
]


@pytest.fixture
def stub() -> Iterator[Stubber]:
    """Return a stubbed SageMaker client that must receive exactly the calls it was told of."""
    client = boto3.client(
        "sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def described(name: str, count: int, **other: Any) -> dict[str, Any]:
    """Return a group as DescribeCluster gives it."""
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.c5.4xlarge" if name == "system" else "ml.p5.48xlarge",
        "CurrentCount": count,
        "TargetCount": count,
        "Status": "InService",
        "ExecutionRole": ROLE,
        "LifeCycleConfig": LIFECYCLE,
        "CurrentImageId": "ami-0123456789abcdef0",
        "CurrentImageReleaseVersion": "1.2.3",
        "KubernetesConfig": {
            "CurrentLabels": {"hyperpod-dpd/role": name},
            "DesiredLabels": {"hyperpod-dpd/role": name},
        },
        **other,
    }


def specified(name: str, count: int, **other: Any) -> dict[str, Any]:
    """Return the same group as UpdateCluster must get it."""
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.c5.4xlarge" if name == "system" else "ml.p5.48xlarge",
        "InstanceCount": count,
        "ExecutionRole": ROLE,
        "LifeCycleConfig": LIFECYCLE,
        "KubernetesConfig": {"Labels": {"hyperpod-dpd/role": name}},
        **other,
    }


def describe(stub: Stubber, *groups: dict[str, Any], status: str = "InService") -> None:
    answer = {
        "ClusterArn": ARN,
        "ClusterName": "dpd-dev",
        "ClusterStatus": status,
        "CreationTime": datetime(2026, 11, 30, tzinfo=UTC),
        "InstanceGroups": list(groups),
    }
    stub.add_response("describe_cluster", answer, {"ClusterName": ARN})


def expect(stub: Stubber, *groups: dict[str, Any]) -> None:
    request = {"ClusterName": ARN, "InstanceGroups": list(groups)}
    stub.add_response("update_cluster", {"ClusterArn": ARN}, request)


def scale(stub: Stubber, fields: list[str] = FIELDS, **counts: int) -> dict[str, int]:
    return handler.handle(message(fields, **counts), None, client=stub.client)


def message(fields: list[str], **counts: int) -> dict[str, Any]:
    """Return a wish as Lambda hands over the queue's message."""
    wish = {"Due": "2026-12-01T20:00:00Z", "ClusterName": ARN, "Counts": counts, "Fields": fields}
    return {"Records": [{"messageId": "1", "eventSource": "aws:sqs", "body": json.dumps(wish)}]}


def test_at_night_the_gpu_groups_go_to_zero_and_the_system_stays(stub: Stubber) -> None:
    describe(stub, described("system", 2, MinCount=2), described("prefill", 3), described("decode", 1))
    expect(
        stub,
        specified("system", 2, MinInstanceCount=2),
        specified("prefill", 0),
        specified("decode", 0),
    )

    assert scale(stub, prefill=0, decode=0) == {"prefill": 0, "decode": 0}


def test_in_the_morning_they_come_back(stub: Stubber) -> None:
    describe(stub, described("system", 2), described("prefill", 0), described("decode", 0))
    expect(stub, specified("system", 2), specified("prefill", 3), specified("decode", 1))

    assert scale(stub, prefill=3, decode=1) == {"prefill": 3, "decode": 1}


def test_a_group_that_the_schedule_does_not_name_keeps_its_count(stub: Stubber) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
    paid = described("prefill", 3, TrainingPlanArn=plan, TrainingPlanStatus="Active")
    describe(stub, paid, described("decode", 1))
    expect(stub, specified("prefill", 3, TrainingPlanArn=plan), specified("decode", 0))

    assert scale(stub, decode=0) == {"decode": 0}


def test_everything_that_the_stacks_can_set_is_handed_back(stub: Stubber) -> None:
    same = {
        "ThreadsPerCore": 2,
        "InstanceStorageConfigs": VOLUMES,
        "OnStartDeepHealthChecks": ["InstanceStress"],
        "OverrideVpcConfig": VPC,
        "ScheduledUpdateConfig": WINDOW,
        "CapacityRequirements": {"Spot": {}},
        "NetworkInterface": {"InterfaceType": "efa"},
    }
    taint = {"Key": "gpu", "Effect": "PreferNoSchedule"}
    labels = {"hyperpod-dpd/role": "decode", "team": "search"}
    wanted = {"CurrentLabels": {}, "DesiredLabels": labels, "CurrentTaints": [], "DesiredTaints": [taint]}
    patching = {
        "PatchingStrategy": "WhenIdle",
        "CurrentPatchSchedule": {"NextPatchDate": datetime(2026, 12, 1, tzinfo=UTC)},
    }
    flexible = {
        "CurrentInstanceTypes": ["ml.p5.48xlarge"],
        "DesiredInstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"],
    }
    group = described(
        "decode", 1, KubernetesConfig=wanted, InstanceRequirements=flexible, AutoPatchConfig=patching, **same
    )
    del group["InstanceType"]
    describe(stub, group)
    request = specified(
        "decode",
        0,
        KubernetesConfig={"Labels": labels, "Taints": [taint]},
        InstanceRequirements={"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]},
        AutoPatchConfig={"PatchingStrategy": "WhenIdle"},
        **same,
    )
    del request["InstanceType"]
    expect(stub, request)

    assert scale(stub, decode=0) == {"decode": 0}


def test_every_field_of_the_request_is_told_or_left_out_for_a_reason(stub: Stubber) -> None:
    """A field that AWS adds under another name in the answer must not be lost in silence."""
    model = stub.client.meta.service_model
    asked = set(model.shape_for("ClusterInstanceGroupSpecification").members)
    told = set(model.shape_for("ClusterInstanceGroupDetails").members)

    assert asked - told == {"InstanceCount", "MinInstanceCount", "ImageId", "ImageReleaseVersion"}


def test_a_minimum_never_exceeds_the_count(stub: Stubber) -> None:
    describe(stub, described("decode", 2, MinCount=2))
    expect(stub, specified("decode", 0, MinInstanceCount=0))

    scale(stub, decode=0)


def test_nothing_is_asked_where_the_counts_are_right(stub: Stubber) -> None:
    describe(stub, described("system", 2), described("decode", 0), status="Updating")

    assert scale(stub, decode=0) == {}


@pytest.mark.parametrize("status", ["Updating", "SystemUpdating", "RollingBack", "Failed"])
def test_a_busy_cluster_fails_so_that_the_message_comes_again(stub: Stubber, status: str) -> None:
    describe(stub, described("decode", 1), status=status)

    with pytest.raises(RuntimeError, match=f"is {status}; nothing was changed"):
        scale(stub, decode=0)


def test_a_group_that_is_gone_changes_nothing(stub: Stubber) -> None:
    describe(stub, described("decode", 1))

    with pytest.raises(RuntimeError, match="no group prefill; nothing was changed"):
        scale(stub, prefill=0, decode=0)


def older_sdk(stub: Stubber, shape: str, member: str) -> SimpleNamespace:
    """Return a client whose service model lacks one member, and which can be asked for nothing."""
    description = copy.deepcopy(stub.client.meta.service_model._service_description)
    del description["shapes"][shape]["members"][member]
    return SimpleNamespace(meta=SimpleNamespace(service_model=ServiceModel(description, "sagemaker")))


@pytest.mark.parametrize(
    ("shape", "member", "lost"),
    [
        ("ClusterInstanceGroupSpecification", "LifeCycleConfig", "lifeCycleConfig.onCreate"),
        ("ClusterEbsVolumeConfig", "VolumeKmsKeyId", "instanceStorageConfigs.ebsVolumeConfig.volumeKmsKeyId"),
        ("ClusterKubernetesTaint", "Effect", "kubernetesConfig.taints.effect"),
    ],
)
def test_an_sdk_that_would_lose_a_field_at_any_depth_changes_nothing(
    stub: Stubber, shape: str, member: str, lost: str
) -> None:
    with pytest.raises(RuntimeError, match=f"does not know {lost}; nothing was changed"):
        handler.handle(message(FIELDS, decode=0), None, client=older_sdk(stub, shape, member))


def test_a_field_that_no_sdk_knows_yet_changes_nothing(stub: Stubber) -> None:
    unknown = "networkInterface.interfaceType.speed"

    with pytest.raises(RuntimeError, match=f"does not know quantumLink, {unknown}; nothing was changed"):
        scale(stub, fields=[*FIELDS, "quantumLink", unknown], decode=0)


@pytest.mark.parametrize(
    ("part", "there"), [("Labels", {"team": "search"}), ("Taints", [{"Key": "gpu", "Effect": "NoExecute"}])]
)
def test_labels_and_taints_that_were_asked_away_do_not_come_back(
    stub: Stubber, part: str, there: object
) -> None:
    details = {f"Current{part}": there, f"Desired{part}": type(there)()}
    describe(stub, described("decode", 1, KubernetesConfig=details))
    expect(stub, specified("decode", 0, KubernetesConfig={part: type(there)()}))

    assert scale(stub, decode=0) == {"decode": 0}
