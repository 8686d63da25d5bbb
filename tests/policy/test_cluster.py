"""What every cluster template, its base chart and its buckets must hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd_constructs.base_chart_values import base_chart_values
from dpd_constructs.eks_cluster import BASE_ADDONS
from dpd_constructs.kubectl import kubectl_layer

Template = dict[str, Any]
Templates = dict[str, dict[str, Template]]


@pytest.fixture(params=["dev", "staging", "prod"])
def environment(request: pytest.FixtureRequest, catalog: Catalog) -> Environment:
    value = catalog.environments[request.param].value
    assert value is not None
    return value


@pytest.fixture
def stacks(environment: Environment, environment_stacks: Templates) -> dict[str, Template]:
    return environment_stacks[environment.name]


def of_type(template: Template, kind: str) -> list[dict[str, Any]]:
    return [item for item in template["Resources"].values() if item["Type"] == kind]


@pytest.fixture
def cluster(stacks: dict[str, Template]) -> dict[str, Any]:
    (resource,) = of_type(stacks["cluster"], "AWS::EKS::Cluster")
    return resource["Properties"]


def test_api_endpoint_is_private(cluster: dict[str, Any]) -> None:
    assert cluster["ResourcesVpcConfig"]["EndpointPrivateAccess"] is True
    assert cluster["ResourcesVpcConfig"]["EndpointPublicAccess"] is False


def test_auto_mode_is_off(cluster: dict[str, Any]) -> None:
    assert cluster["ComputeConfig"] == {"Enabled": False}
    assert cluster["StorageConfig"] == {"BlockStorage": {"Enabled": False}}


def test_version_and_name_are_configured(environment: Environment, cluster: dict[str, Any]) -> None:
    assert cluster["Version"] == environment.kubernetes.version
    assert cluster["Name"] == f"dpd-{environment.name}"
    assert cluster["AccessConfig"]["AuthenticationMode"] == "API"


def test_every_control_plane_log_is_on(cluster: dict[str, Any]) -> None:
    enabled = {row["Type"] for row in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]}
    assert enabled == {"api", "audit", "authenticator", "controllerManager", "scheduler"}


def test_secrets_are_encrypted_with_a_key_that_rotates(
    stacks: dict[str, Template], cluster: dict[str, Any]
) -> None:
    (encryption,) = cluster["EncryptionConfig"]
    key = stacks["cluster"]["Resources"][encryption["Provider"]["KeyArn"]["Fn::GetAtt"][0]]
    assert encryption["Resources"] == ["secrets"]
    assert key["Properties"]["EnableKeyRotation"] is True


def test_control_plane_and_nodes_share_the_node_group(
    stacks: dict[str, Template], cluster: dict[str, Any]
) -> None:
    (hyperpod,) = of_type(stacks["hyperpod"], "AWS::SageMaker::Cluster")
    nodes = hyperpod["Properties"]["VpcConfig"]["SecurityGroupIds"]
    assert cluster["ResourcesVpcConfig"]["SecurityGroupIds"] == nodes


def test_addons_are_pinned(environment: Environment, facts: Facts, stacks: dict[str, Template]) -> None:
    rows = [row["Properties"] for row in of_type(stacks["cluster"], "AWS::EKS::Addon")]
    addons = {row["AddonName"]: row for row in rows}
    assert set(addons) == set(BASE_ADDONS) == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}
    for name, properties in addons.items():
        expected = environment.addons.get(name, facts.addons[name].default_version)
        assert properties["AddonVersion"] == expected, name
        assert properties["ResolveConflicts"] == "OVERWRITE", name


def test_oidc_provider_is_native(stacks: dict[str, Template]) -> None:
    (provider,) = of_type(stacks["cluster"], "AWS::IAM::OIDCProvider")
    assert provider["Properties"]["ClientIdList"] == ["sts.amazonaws.com"]


def test_kubectl_provider_runs_beside_the_private_endpoint(stacks: dict[str, Template]) -> None:
    functions = [
        item
        for name, item in stacks["cluster"]["Resources"].items()
        if item["Type"] == "AWS::Lambda::Function" and "KubectlProvider" in name
    ]
    assert functions
    for function in functions:
        assert len(function["Properties"]["VpcConfig"]["SubnetIds"]) == 2, "P-80"


def test_missing_kubectl_layer_names_the_package(facts: Facts) -> None:
    row = facts.kubernetes["1.34"].model_copy(update={"kubectl_layer_module": "aws_cdk.no_such_layer"})
    lacking = replace(facts, kubernetes={"1.34": row})
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'aws-cdk\.lambda-layer-kubectl-v34"):
        kubectl_layer(None, "Layer", kubernetes_version="1.34", facts=lacking)  # pyright: ignore[reportArgumentType]


def test_unknown_kubernetes_version_lists_the_known_ones(facts: Facts) -> None:
    with pytest.raises(ValueError, match=r"Kubernetes '1\.99'; known: 1\.30, "):
        kubectl_layer(None, "Layer", kubernetes_version="1.99", facts=facts)  # pyright: ignore[reportArgumentType]


# --- the base chart ---


def chart(stacks: dict[str, Template]) -> tuple[str, dict[str, Any]]:
    found = [
        (name, item)
        for name, item in stacks["hyperpod"]["Resources"].items()
        if item["Type"] == "Custom::HyperPodBaseChart"
    ]
    (only,) = found
    return only


def test_hyperpod_cluster_waits_for_the_chart(stacks: dict[str, Template]) -> None:
    (hyperpod,) = of_type(stacks["hyperpod"], "AWS::SageMaker::Cluster")
    assert chart(stacks)[0] in hyperpod["DependsOn"], "P-14"


def test_chart_outlives_nothing_that_its_removal_needs(stacks: dict[str, Template]) -> None:
    resources = stacks["hyperpod"]["Resources"]
    kinds = {resources[name]["Type"] for name in chart(stacks)[1]["DependsOn"]}
    assert {"AWS::EKS::AccessEntry", "AWS::CodeBuild::Project", "AWS::IAM::Policy"} <= kinds


def test_chart_is_pinned_by_commit(facts: Facts, stacks: dict[str, Template]) -> None:
    variables = chart(stacks)[1]["Properties"]["Variables"]
    assert variables["COMMIT"] == facts.charts["hyperpod-base"].commit
    assert len(variables["COMMIT"]) == 40
    assert (variables["RELEASE"], variables["NAMESPACE"]) == ("hyperpod-dependencies", "kube-system")


def test_chart_variables_fit_into_a_build(stacks: dict[str, Template]) -> None:
    # CodeBuild takes about 5,500 characters of names and values (CodeBuild troubleshooting page).
    variables = chart(stacks)[1]["Properties"]["Variables"]
    assert sum(len(name) + len(value) for name, value in variables.items()) < 5000


def test_chart_values_suit_an_inference_cluster(
    environment: Environment, stacks: dict[str, Template]
) -> None:
    values = json.loads(chart(stacks)[1]["Properties"]["Variables"]["VALUES"])
    assert values["health-monitoring-agent"] == {"enabled": True, "region": environment.region}
    for name in ("trainingOperators", "mpi-operator", "inferenceOperators", "cert-manager", "gpu-operator"):
        assert values[name] == {"enabled": False}, name
    assert values["neuron-device-plugin"] == {"devicePlugin": {"enabled": False}}


def test_device_plugins_run_on_every_dpd_type_and_on_no_cpu_type(
    environment: Environment, facts: Facts
) -> None:
    values: Any = base_chart_values(environment, facts)
    efa_types = values["aws-efa-k8s-device-plugin"]["supportedInstanceLabels"]["values"]
    assert set(facts.dpd_instance_types()) <= set(efa_types)
    assert "ml.c5.4xlarge" not in efa_types, "P-22"
    required = values["nvidia-device-plugin"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    gpu_types = required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    assert set(facts.dpd_instance_types()) <= set(gpu_types)


def test_build_ends_before_the_framework_gives_up(stacks: dict[str, Template]) -> None:
    (project,) = of_type(stacks["hyperpod"], "AWS::CodeBuild::Project")
    limits = project["Properties"]
    assert limits["TimeoutInMinutes"] == 20
    machines = [
        item
        for name, item in stacks["hyperpod"]["Resources"].items()
        if item["Type"] == "AWS::StepFunctions::StateMachine" and "BaseChart" in name
    ]
    (machine,) = machines
    definition = "".join(
        part for part in machine["Properties"]["DefinitionString"]["Fn::Join"][1] if isinstance(part, str)
    )
    retry = json.loads(definition)["States"]["framework-isComplete-task"]["Retry"][0]
    waited_minutes = retry["IntervalSeconds"] * retry["MaxAttempts"] / 60
    assert waited_minutes >= limits["TimeoutInMinutes"] + limits["QueuedTimeoutInMinutes"] + 5


def statements(stacks: dict[str, Template], role: str) -> list[dict[str, Any]]:
    return [
        statement
        for name, item in stacks["hyperpod"]["Resources"].items()
        if item["Type"] == "AWS::IAM::Policy" and name.startswith(role)
        for statement in item["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_build_may_touch_one_cluster_and_one_layer(stacks: dict[str, Template]) -> None:
    rights = {
        json.dumps(statement["Action"]): statement["Resource"]
        for statement in statements(stacks, "BaseChartBuild")
    }
    assert "ImportValue" in json.dumps(rights['"eks:DescribeCluster"'])
    assert rights['"lambda:GetLayerVersion"']["Ref"].startswith("BaseChartTools")


def test_only_the_builds_network_rights_are_unscoped(stacks: dict[str, Template]) -> None:
    unscoped = [
        action
        for statement in statements(stacks, "BaseChart")
        if statement["Resource"] == "*"
        for action in statement["Action"]
    ]
    # CodeBuild makes its interfaces with these, which know no narrower resource (CodeBuild VPC page).
    assert {action.partition(":")[0] for action in unscoped} == {"ec2"}


# --- order, buckets, protection ---


@pytest.mark.parametrize("name", ["weights", "hyperpod", "operator"])
def test_buckets_are_private_versioned_and_encrypted(
    environment: Environment, stacks: dict[str, Template], name: str
) -> None:
    buckets = of_type(stacks[name], "AWS::S3::Bucket")
    assert buckets
    for bucket in buckets:
        properties = bucket["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        assert properties["BucketEncryption"]
        assert bucket["DeletionPolicy"] == ("Retain" if environment.protected else "Delete")
    policies = of_type(stacks[name], "AWS::S3::BucketPolicy")
    assert len(policies) == len(buckets)
    assert all('"aws:SecureTransport": "false"' in json.dumps(policy) for policy in policies)


def test_no_template_empties_buckets_by_itself(stacks: dict[str, Template]) -> None:
    assert "Custom::S3AutoDeleteObjects" not in json.dumps(stacks)
