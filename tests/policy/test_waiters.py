"""The waits of the operator stack: what they ask, with which rights, for how long, beside what."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Template = dict[str, Any]
Stacks = dict[str, dict[str, Template]]
ASKS = ("Custom::GpuDevicesReady", "Custom::CertManagerWebhookAnswers", "Custom::InferenceDefinitionReady")
"""What is asked of the Kubernetes API."""


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


def rights(template: Template) -> dict[str, Template]:
    (item,) = of_type(template, "Custom::AWSCDK-EKS-KubernetesResource").values()
    return {manifest["kind"]: manifest for manifest in json.loads(item["Properties"]["Manifest"])}


def test_whoever_asks_may_read_nodes_and_one_definition_and_nothing_else(operator: Template) -> None:
    assert rights(operator)["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["get"],
            "resourceNames": [the(operator, "Custom::InferenceDefinitionReady")["Properties"]["Definition"]],
        },
    ]


def test_an_issuer_may_be_tried_in_the_namespace_that_is_asked_for(operator: Template) -> None:
    role = rights(operator)["Role"]

    assert role["rules"] == [
        {"apiGroups": ["cert-manager.io"], "resources": ["issuers"], "verbs": ["create"]}
    ]
    asked = the(operator, "Custom::CertManagerWebhookAnswers")["Properties"]["Namespace"]
    assert role["metadata"]["namespace"] == rights(operator)["RoleBinding"]["metadata"]["namespace"] == asked


def test_rights_that_an_earlier_attempt_left_do_no_harm(operator: Template) -> None:
    """CDK's removal succeeds whatever kubectl says, and its creation fails on what is there."""
    (item,) = of_type(operator, "Custom::AWSCDK-EKS-KubernetesResource").values()

    assert item["Properties"]["Overwrite"] is True


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_the_rights_are_those_of_the_askers_group_alone(operator: Template, kind: str) -> None:
    entry = the(operator, "AWS::EKS::AccessEntry")["Properties"]
    binding = rights(operator)[f"{kind}Binding"]

    assert "AccessPolicies" not in entry
    assert binding["roleRef"]["name"] == rights(operator)[kind]["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == entry["KubernetesGroups"]


def test_aws_lets_the_asker_describe_one_cluster_and_have_interfaces(operator: Template) -> None:
    allowed = {
        action: statement["Resource"]
        for statement in statements_of(operator, "KubernetesWaitsWaiterIsComplete")
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


def test_interfaces_are_made_by_lambda_and_not_by_the_code_in_it(operator: Template) -> None:
    (statement,) = (
        statement
        for statement in statements_of(operator, "KubernetesWaitsWaiterIsComplete")
        if "ec2:CreateNetworkInterface" in statement["Action"]
    )

    assert statement["Condition"] == {"Null": {"lambda:SourceFunctionArn": "true"}}


def test_a_network_that_swallows_everything_leaves_time_to_say_so(operator: Template) -> None:
    from dpd_constructs.handlers.kubernetes_waits import api

    (limit_s,) = (
        item["Properties"]["Timeout"]
        for name, item in of_type(operator, "AWS::Lambda::Function").items()
        if name.startswith("KubernetesWaitsWaiterIsComplete")
    )
    addresses = 2  # one in each zone of the control plane, for EKS's endpoint and for the cluster's

    assert api.EKS_LIMITS.retries["total_max_attempts"] == 1
    eks_s = addresses * api.EKS_LIMITS.connect_timeout + api.EKS_LIMITS.read_timeout
    assert eks_s + addresses * api.REQUEST_S < limit_s


def test_the_asker_runs_where_the_private_endpoint_is(operator: Template) -> None:
    functions = of_type(operator, "AWS::Lambda::Function")
    placed = [name for name, item in functions.items() if "VpcConfig" in item["Properties"]]

    assert len(placed) == 1
    assert placed[0].startswith("KubernetesWaitsWaiterIsComplete")
    config = functions[placed[0]]["Properties"]["VpcConfig"]
    assert "ControlPlaneSubnet" in str(config["SubnetIds"])
    assert "ClusterSecurityGroupId" in str(config["SecurityGroupIds"])


@pytest.mark.parametrize("kind", ASKS)
def test_access_comes_before_the_question(operator: Template, kind: str) -> None:
    needs = set(the(operator, kind)["DependsOn"])

    assert set(of_type(operator, "AWS::EKS::AccessEntry")) <= needs
    assert set(of_type(operator, "Custom::AWSCDK-EKS-KubernetesResource")) <= needs


def test_functions_rights_and_devices_do_not_wait_for_addons(operator: Template) -> None:
    addons = set(of_type(operator, "AWS::EKS::Addon"))

    for name, item in operator["Resources"].items():
        if name.startswith(("DevicesReady", "KubernetesWaits")):
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


def test_another_version_of_any_addon_is_waited_for_again(
    environment_stacks: Stacks, operator: Template, request: pytest.FixtureRequest
) -> None:
    properties = the(operator, "Custom::EksAddonsActive")["Properties"]
    stacks = environment_stacks[request.node.callspec.params["operator"]]
    pinned = {
        item["Properties"]["AddonName"]: item["Properties"]["AddonVersion"]
        for template in (stacks["cluster"], operator)
        for item in of_type(template, "AWS::EKS::Addon").values()
    }

    assert dict(zip(properties["Addons"], properties["Versions"], strict=True)) == pinned


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
        "addons": ["cert-manager"],  # whose owner may have installed it by Helm: no add-on to EKS
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
    assert not {"coredns", "cert-manager"} & set(wanted)
    assert "amazon-sagemaker-hyperpod-inference" in wanted


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [*((kind, "KubernetesWaits") for kind in ASKS), ("Custom::EksAddonsActive", "AddonsActive")],
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


def test_what_starts_a_wait_may_do_nothing_but_write_its_log(operator: Template) -> None:
    for part in ("KubernetesWaits", "AddonsActive"):
        assert statements_of(operator, f"{part}WaiterOnEvent") == []


def uploads(app: Any) -> dict[str, Path]:
    """Return the folder that is uploaded for each handler that lies in a folder of its own."""
    functions = [
        item["Properties"]
        for stack in app.synth().stacks
        for item in of_type(stack.template, "AWS::Lambda::Function").values()
    ]
    return {
        module: Path(app.outdir) / f"asset.{function['Code']['S3Key'].removesuffix('.zip')}"
        for function in functions
        if "." in (module := function["Handler"].rpartition(".")[0])
    }


def test_every_handler_can_be_loaded_from_what_is_uploaded(environment_app: Any) -> None:
    """Handlers import their neighbours, which a test of the checkout would find elsewhere."""
    found = uploads(environment_app)

    assert {"addons_active", "base_chart", "kubernetes_waits", "nodes_ready"} == {
        module.removesuffix(".handler") for module in found
    }
    for module, folder in found.items():
        subprocess.run([sys.executable, "-c", f"import {module}"], cwd=folder, check=True)


def test_a_handler_is_uploaded_alone(environment_app: Any) -> None:
    folder = uploads(environment_app)["kubernetes_waits.handler"]

    uploaded = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    parts = ("api", "definition", "devices", "handler", "webhook")
    assert uploaded == {f"kubernetes_waits/{part}.py" for part in parts}
