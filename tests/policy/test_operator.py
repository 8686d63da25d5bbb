"""What the template of the inference operator must hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment

Template = dict[str, Any]

OPERATOR = "amazon-sagemaker-hyperpod-inference"
DEPENDENCIES = (
    "coredns",
    "cert-manager",
    "aws-mountpoint-s3-csi-driver",
    "aws-fsx-csi-driver",
    "metrics-server",
)
NAMESPACE = "hyperpod-inference-system"


@pytest.fixture(params=["dev", "staging", "prod"])
def environment(request: pytest.FixtureRequest, catalog: Catalog) -> Environment:
    value = catalog.environments[request.param].value
    assert value is not None
    return value


@pytest.fixture
def template(environment: Environment, environment_stacks: dict[str, dict[str, Template]]) -> Template:
    return environment_stacks[environment.name]["operator"]


def of_type(template: Template, kind: str) -> dict[str, Template]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def addons(template: Template) -> dict[str, tuple[str, Template]]:
    """Return logical id and resource of each add-on by its name."""
    return {
        item["Properties"]["AddonName"]: (name, item)
        for name, item in of_type(template, "AWS::EKS::Addon").items()
    }


def joined(value: Any) -> str:
    """Return a text whose parts are only known at deployment, with `<...>` in their place."""
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(joined(part) for part in parts)
    if isinstance(value, dict) and "Fn::Select" in value:
        return "<issuer>"
    if isinstance(value, dict) and "Fn::GetAtt" in value:
        return f"<{value['Fn::GetAtt'][0]}>"
    return value if isinstance(value, str) else f"<{next(iter(value.values()))}>"


def configuration(template: Template) -> dict[str, Any]:
    return json.loads(joined(addons(template)[OPERATOR][1]["Properties"]["ConfigurationValues"]))


def trust(template: Template, role: str) -> dict[str, str]:
    """Return the conditions under which a service account may assume a role."""
    (statement,) = (
        item
        for item in template["Resources"][role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        if item["Action"] == "sts:AssumeRoleWithWebIdentity"
    )
    (operator, condition) = next(iter(statement["Condition"].items()))
    assert operator == "StringEquals"
    assert "OidcProvider" in statement["Principal"]["Federated"]["Fn::ImportValue"]
    return json.loads(joined(template["Resources"][condition["Fn::GetAtt"][0]]["Properties"]["Value"]))


def role_of(template: Template, arn: str) -> str:
    return arn.strip("<>") if isinstance(arn, str) else joined(arn).strip("<>")


def roles(template: Template) -> dict[str, str]:
    """Return the logical id of the role that each part of the operator's set gets."""
    values = configuration(template)
    return {
        "operator": role_of(template, values["executionRoleArn"]),
        "alb": role_of(template, values["alb"]["serviceAccount"]["roleArn"]),
        "keda": role_of(template, values["keda"]["auth"]["aws"]["irsa"]["roleArn"]),
        **{
            name: role_of(template, addons(template)[name][1]["Properties"]["ServiceAccountRoleArn"])
            for name in ("aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver")
        },
    }


def test_the_stack_installs_the_operator_and_what_it_needs(template: Template) -> None:
    assert set(addons(template)) == {OPERATOR, *DEPENDENCIES}


def test_name_service_comes_after_the_nodes_that_it_runs_on(
    environment: Environment, environment_app: Any, template: Template
) -> None:
    artifact = environment_app.synth().get_stack_by_name(f"dpd-{environment.name}-operator")

    assert "coredns" in addons(template)
    assert f"dpd-{environment.name}-hyperpod" in {item.id for item in artifact.dependencies}


@pytest.mark.parametrize("name", [OPERATOR, *DEPENDENCIES], ids=lambda name: f"P-18-{name}")
def test_every_addon_is_pinned(template: Template, environment: Environment, facts: Facts, name: str) -> None:
    wanted = environment.operator.addon_version if name == OPERATOR else None

    version = addons(template)[name][1]["Properties"]["AddonVersion"]

    assert version == (wanted or environment.addons.get(name) or facts.addons[name].default_version)


def test_every_addon_takes_over_what_it_finds(template: Template) -> None:
    assert {item["Properties"]["ResolveConflicts"] for _, item in addons(template).values()} == {"OVERWRITE"}


def test_operator_is_told_what_it_demands(template: Template, facts: Facts) -> None:
    values = configuration(template)

    assert set(facts.addon_configuration[OPERATOR].required) <= set(values)
    assert "HyperPod" in values["hyperpodClusterArn"]
    assert values["alb"]["enabled"] is values["alb"]["serviceAccount"]["create"] is True
    assert values["keda"]["enabled"] is values["keda"]["auth"]["aws"]["irsa"]["enabled"] is True
    assert values["nodeSelector"] == {"hyperpod-dpd/role": "system"}


def dotted(values: dict[str, Any], path: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        below = isinstance(value, dict)
        found |= dotted(value, f"{path}{key}.") if below else {f"{path}{key}"}
    return found


def test_operator_is_told_nothing_that_its_schema_lacks(template: Template, facts: Facts) -> None:
    allowed = facts.addon_configuration[OPERATOR].keys
    trees = tuple(key.removesuffix("*") for key in allowed if key.endswith(".*"))

    unknown = {key for key in dotted(configuration(template)) if key not in allowed}

    assert {key for key in unknown if not key.startswith(trees)} == set()


@pytest.mark.parametrize(
    ("part", "account"),
    [
        ("operator", f"{NAMESPACE}:hyperpod-inference-controller-manager"),
        ("alb", f"{NAMESPACE}:aws-load-balancer-controller"),
        ("keda", f"{NAMESPACE}:keda-operator"),
        ("aws-mountpoint-s3-csi-driver", "kube-system:s3-csi-driver-sa"),
        ("aws-fsx-csi-driver", "kube-system:fsx-csi-controller-sa"),
    ],
    ids=lambda value: f"P-30-{value}",
)
def test_each_role_trusts_exactly_one_service_account(template: Template, part: str, account: str) -> None:
    assert trust(template, roles(template)[part]) == {
        "<issuer>:aud": "sts.amazonaws.com",
        "<issuer>:sub": f"system:serviceaccount:{account}",
    }


def test_only_the_operator_role_is_also_the_service_s(template: Template) -> None:
    services = {
        part: {
            statement["Principal"]["Service"]
            for statement in template["Resources"][role]["Properties"]["AssumeRolePolicyDocument"][
                "Statement"
            ]
            if "Service" in statement["Principal"]
        }
        for part, role in roles(template).items()
    }

    assert services.pop("operator") == {"sagemaker.amazonaws.com"}
    assert all(not service for service in services.values())


def test_operator_role_has_the_name_that_its_policy_may_pass(
    template: Template, environment: Environment
) -> None:
    name = template["Resources"][roles(template)["operator"]]["Properties"]["RoleName"]

    assert name == f"SageMakerHyperPodInference-{environment.name}-{environment.region}"
    assert len(name) <= 64


def test_certificates_lie_in_a_bucket_that_the_operator_may_write(template: Template) -> None:
    bucket_id = configuration(template)["tlsCertificateS3Bucket"].strip("<>")
    name = joined(template["Resources"][bucket_id]["Properties"]["BucketName"])

    assert name.startswith("hyperpod-tls-dpd-")


def test_operator_comes_after_all_it_depends_on(template: Template) -> None:
    before = addons(template)[OPERATOR][1]["DependsOn"]

    assert {addons(template)[name][0] for name in DEPENDENCIES} <= set(before)


def wait(template: Template, kind: str) -> tuple[str, Template]:
    ((logical_id, item),) = of_type(template, kind).items()
    return logical_id, item


def test_operator_waits_for_an_answer_of_cert_managers_webhook(template: Template) -> None:
    logical_id, webhook = wait(template, "Custom::CertManagerWebhookAnswers")

    assert addons(template)["cert-manager"][0] in webhook["DependsOn"]
    assert webhook["Properties"]["Check"] == "webhook"
    assert logical_id in addons(template)[OPERATOR][1]["DependsOn"]


def test_crd_is_read_after_the_operator(template: Template) -> None:
    _, crd = wait(template, "Custom::InferenceDefinitionReady")

    assert addons(template)[OPERATOR][0] in crd["DependsOn"]
    assert crd["Properties"]["Check"] == "definition"
    assert crd["Properties"]["Definition"] == "inferenceendpointconfigs.inference.sagemaker.aws.amazon.com"


@pytest.mark.parametrize(
    ("kind", "addon"),
    [("Custom::CertManagerWebhookAnswers", "cert-manager"), ("Custom::InferenceDefinitionReady", OPERATOR)],
)
def test_another_version_of_an_addon_is_waited_for_again(template: Template, kind: str, addon: str) -> None:
    """CloudFormation runs a custom resource again only when a property of it has changed."""
    _, waiting = wait(template, kind)

    assert waiting["Properties"]["AddonVersion"] == addons(template)[addon][1]["Properties"]["AddonVersion"]


def statements(template: Template, part: str) -> list[dict[str, Any]]:
    policies = template["Resources"][roles(template)[part]]["Properties"]["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_volumes_read_the_models_of_the_environment_and_write_nothing(template: Template) -> None:
    allowed = {
        action: [joined(resource) for resource in listed(statement["Resource"])]
        for statement in statements(template, "aws-mountpoint-s3-csi-driver")
        for action in listed(statement["Action"])
    }

    assert set(allowed) == {"s3:ListBucket", "s3:GetObject", "kms:Decrypt"}
    assert [path.rpartition(">")[2] for path in allowed["s3:GetObject"]] == ["/Llama-3.3-70B-Instruct/*"]


def test_load_balancer_controller_changes_only_what_has_the_cluster_tag(template: Template) -> None:
    free = {
        action
        for statement in statements(template, "alb")
        if "elbv2.k8s.aws/cluster" not in json.dumps(statement.get("Condition", {}))
        for action in listed(statement["Action"])
        if action.split(":")[1].startswith(("Delete", "Set", "Create", "Modify", "Register", "Deregister"))
        and action.startswith(("ec2:", "elasticloadbalancing:"))
    }

    # What hangs on a load balancer, and a group that has no tag before it exists.
    assert free == {
        "ec2:CreateSecurityGroup",
        "elasticloadbalancing:CreateListener",
        "elasticloadbalancing:CreateRule",
        "elasticloadbalancing:DeleteListener",
        "elasticloadbalancing:DeleteRule",
        "elasticloadbalancing:ModifyListener",
        "elasticloadbalancing:ModifyListenerAttributes",
        "elasticloadbalancing:ModifyRule",
        "elasticloadbalancing:SetRulePriorities",
        "elasticloadbalancing:SetWebAcl",
    }


def test_load_balancer_controller_reaches_no_other_account_or_region(template: Template) -> None:
    arns = {
        joined(resource)
        for statement in statements(template, "alb")
        for resource in listed(statement["Resource"])
        if resource != "*"
    }

    assert arns
    assert all("<AWS::AccountId>" in arn for arn in arns)
    assert not [arn for arn in arns if ":*:" in arn]


def test_no_role_of_the_operator_may_pass_roles_or_write_policies(template: Template) -> None:
    granted = {
        action
        for part in roles(template)
        for statement in statements(template, part)
        for action in listed(statement["Action"])
    }

    assert {action for action in granted if action.startswith("iam:")} == {"iam:CreateServiceLinkedRole"}
    assert not [action for action in granted if "*" in action]


def test_service_accounts_of_addons_are_not_made_here(template: Template) -> None:
    manifests = of_type(template, "Custom::AWSCDK-EKS-KubernetesResource").values()
    assert not [item for item in manifests if "ServiceAccount" in json.dumps(item["Properties"]["Manifest"])]
    assert not of_type(template, "AWS::EKS::PodIdentityAssociation")
