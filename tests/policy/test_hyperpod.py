"""What the template of the HyperPod cluster must hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment

Template = dict[str, Any]

ENVIRONMENTS = ("dev", "staging", "prod")
SCRIPT = Path(__file__).resolve().parents[2] / "constructs/dpd_constructs/lifecycle_scripts/on_create.sh"


@pytest.fixture(params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest, catalog: Catalog) -> Environment:
    value = catalog.environments[request.param].value
    assert value is not None
    return value


@pytest.fixture
def template(environment: Environment, environment_stacks: dict[str, dict[str, Template]]) -> Template:
    return environment_stacks[environment.name]["hyperpod"]


def of_type(template: Template, kind: str) -> dict[str, Template]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def the(template: Template, kind: str) -> Template:
    (resource,) = of_type(template, kind).values()
    return resource


def joined(value: Any) -> str:
    """Return a text whose parts are only known at deployment, with `<...>` in their place."""
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(joined(part) for part in parts)
    return value if isinstance(value, str) else f"<{next(iter(value.values()))}>"


def groups(template: Template) -> dict[str, Template]:
    cluster = the(template, "AWS::SageMaker::Cluster")["Properties"]
    return {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}


def test_cluster_is_named_and_placed_by_the_environment(template: Template, environment: Environment) -> None:
    cluster = the(template, "AWS::SageMaker::Cluster")["Properties"]

    assert cluster["ClusterName"] == f"dpd-{environment.name}"
    assert cluster["NodeProvisioningMode"] == "Continuous"
    assert cluster["NodeRecovery"] == "Automatic"
    assert set(cluster["Orchestrator"]) == {"Eks"}
    (subnet,) = cluster["VpcConfig"]["Subnets"]
    (security_group,) = cluster["VpcConfig"]["SecurityGroupIds"]
    assert "GpuSubnet" in subnet["Fn::ImportValue"]
    assert "NodeSecurityGroup" in security_group["Fn::ImportValue"]


def test_there_is_one_group_for_the_system_and_one_for_each_role(template: Template) -> None:
    assert list(groups(template)) == ["system", "prefill", "decode"]


def test_groups_have_the_instances_of_the_environment(template: Template, environment: Environment) -> None:
    for name, group in groups(template).items():
        wanted = getattr(environment.hyperpod.groups, name)
        assert (group["InstanceType"], group["InstanceCount"]) == (wanted.instance_type, wanted.count)


def test_every_group_carries_its_role_label(template: Template) -> None:
    for name, group in groups(template).items():
        assert group["KubernetesConfig"]["Labels"]["hyperpod-dpd/role"] == name


def test_only_the_system_group_has_a_minimum_and_it_is_its_count(template: Template) -> None:
    system = groups(template).pop("system")

    assert system["MinInstanceCount"] == system["InstanceCount"]
    assert [name for name, group in groups(template).items() if "MinInstanceCount" in group] == ["system"]


def test_no_group_leaves_the_one_zone_or_names_a_placement_group(template: Template) -> None:
    for group in groups(template).values():
        assert "OverrideVpcConfig" not in group
    assert "PlacementGroup" not in json.dumps(template)


def test_deep_health_checks_run_on_gpu_groups_only(template: Template, environment: Environment) -> None:
    wanted = list(environment.hyperpod.deep_health_checks) or None

    assert {name: group.get("OnStartDeepHealthChecks") for name, group in groups(template).items()} == {
        "system": None,
        "prefill": wanted,
        "decode": wanted,
    }


def test_gpu_groups_offer_every_vcpu_of_the_facts(template: Template) -> None:
    threads = {name: group.get("ThreadsPerCore") for name, group in groups(template).items()}

    assert threads == {"system": None, "prefill": 2, "decode": 2}


@pytest.mark.parametrize("group", ["system", "prefill", "decode"], ids=lambda name: f"P-12-{name}")
def test_every_group_has_a_lifecycle_script_in_a_sagemaker_bucket(template: Template, group: str) -> None:
    config = groups(template)[group]["LifeCycleConfig"]
    digest = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:16]
    (logical_id, bucket) = next(iter(of_type(template, "AWS::S3::Bucket").items()))

    assert config["OnCreate"] == "on_create.sh"
    assert joined(config["SourceS3Uri"]) == f"s3://<{logical_id}>/lifecycle/{digest}/"
    assert joined(bucket["Properties"]["BucketName"]).startswith("sagemaker-")


def upload(template: Template) -> dict[str, Any]:
    return json.loads(joined(the(template, "Custom::AWS")["Properties"]["Create"]))


def test_uploaded_script_is_the_one_in_the_repository(template: Template) -> None:
    call = upload(template)["parameters"]
    source = joined(groups(template)["system"]["LifeCycleConfig"]["SourceS3Uri"])

    assert call["Body"] == SCRIPT.read_text(encoding="utf-8")
    assert f"s3://{call['Bucket']}/{call['Key']}" == f"{source}on_create.sh"


def test_a_new_script_leaves_the_old_one_until_the_update_has_succeeded(
    template: Template, environment: Environment
) -> None:
    """A new physical id makes CloudFormation remove the old upload, and no other, as it cleans up."""
    resource = the(template, "Custom::AWS")["Properties"]
    if environment.protected:
        assert "Delete" not in resource
        return

    assert '"responsePath":"VersionId"' in joined(resource["Update"])
    assert '"VersionId":"PHYSICAL:RESOURCEID:"' in joined(resource["Delete"])


@pytest.mark.parametrize("kind", ["Custom::HyperPodBaseChart", "Custom::AWS"], ids=["P-14", "P-08"])
def test_cluster_waits_for_chart_and_script(template: Template, kind: str) -> None:
    (before,) = of_type(template, kind)

    assert before in the(template, "AWS::SageMaker::Cluster")["DependsOn"]


def test_waiter_wants_the_nodes_of_the_cluster(template: Template) -> None:
    (cluster,) = of_type(template, "AWS::SageMaker::Cluster")
    wait = the(template, "Custom::HyperPodNodesReady")["Properties"]

    assert wait["ClusterArn"] == {"Fn::GetAtt": [cluster, "ClusterArn"]}
    assert {group["Name"]: (group["InstanceTypes"], group["Count"]) for group in wait["Groups"]} == {
        name: ([group["InstanceType"]], group["InstanceCount"]) for name, group in groups(template).items()
    }


def test_waiter_can_tell_its_reason_before_the_framework_and_cloudformation_give_up(
    template: Template,
) -> None:
    wait = the(template, "Custom::HyperPodNodesReady")["Properties"]
    (machine,) = (
        joined(item["Properties"]["DefinitionString"])
        for name, item in of_type(template, "AWS::StepFunctions::StateMachine").items()
        if name.startswith("NodesReady")
    )
    retry = json.loads(machine)["States"]["framework-isComplete-task"]["Retry"][0]
    framework_s = retry["IntervalSeconds"] * retry["MaxAttempts"]

    assert wait["FailureGraceSeconds"] < wait["TimeoutSeconds"] < framework_s <= 3600


def test_waiter_reads_this_cluster_and_nothing_else(template: Template) -> None:
    (cluster,) = of_type(template, "AWS::SageMaker::Cluster")
    statements = [
        statement
        for policy in of_type(template, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "sagemaker:ListClusterNodes" in statement["Action"]
    ]

    assert statements
    for statement in statements:
        assert statement["Resource"] == {"Fn::GetAtt": [cluster, "ClusterArn"]}
        assert all(action.startswith("sagemaker:") for action in statement["Action"])


def execution_statements(template: Template) -> list[dict[str, Any]]:
    role = template["Resources"][groups(template)["system"]["ExecutionRole"]["Fn::GetAtt"][0]]["Properties"]
    return [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_reading_objects_is_granted_on_objects(template: Template) -> None:
    resources = [
        joined(resource)
        for statement in execution_statements(template)
        if "s3:GetObject" in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]

    assert resources
    assert all(resource.endswith("/lifecycle/*") for resource in resources)


def test_only_reading_and_unscopable_actions_touch_every_resource(template: Template) -> None:
    open_actions = {
        action
        for statement in execution_statements(template)
        if "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }

    assert {action for action in open_actions if ":Describe" not in action} == {
        "ecr:GetAuthorizationToken",
        "ec2:DeleteNetworkInterfacePermission",
    }


def test_protected_environments_keep_their_scripts(template: Template, environment: Environment) -> None:
    policy = the(template, "AWS::S3::Bucket")["DeletionPolicy"]
    removal = the(template, "Custom::AWS")["Properties"].get("Delete")

    assert policy == ("Retain" if environment.protected else "Delete")
    assert (removal is None) is environment.protected


def test_our_script_does_not_keep_its_bucket_from_going(template: Template, environment: Environment) -> None:
    if environment.protected:
        assert "s3:DeleteObject" not in json.dumps(template)
        return
    resource = the(template, "Custom::AWS")["Properties"]
    put, remove = (json.loads(joined(resource[event])) for event in ("Create", "Delete"))

    # In a versioned bucket only a version can really be deleted.
    assert put["physicalResourceId"] == {"responsePath": "VersionId"}
    assert remove["action"] == "deleteObject"
    assert remove["parameters"] == {
        "Bucket": put["parameters"]["Bucket"],
        "Key": put["parameters"]["Key"],
        "VersionId": "PHYSICAL:RESOURCEID:",
    }
    assert '"s3:DeleteObjectVersion"' in json.dumps(of_type(template, "AWS::IAM::Policy"))


def test_failed_upload_can_be_rolled_back(template: Template, environment: Environment) -> None:
    """CDK's function names a failed upload after its log stream, which S3 refuses as a version."""
    if environment.protected:
        assert "Delete" not in the(template, "Custom::AWS")["Properties"]
        return
    removal = json.loads(joined(the(template, "Custom::AWS")["Properties"]["Delete"]))

    assert removal["ignoreErrorCodesMatching"] == "InvalidArgument"
