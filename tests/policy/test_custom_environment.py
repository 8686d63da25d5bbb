"""What an environment's own choices change in the templates of nodes and operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment

Template = dict[str, Any]

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"


def gpu_group(plan: str | None) -> dict[str, Any]:
    group: dict[str, Any] = {"instance_type": "ml.p5.48xlarge", "count": 1, "labels": {"team": "search"}}
    return {**group, "training_plan_arn": plan}


@pytest.fixture(scope="module")
def templates(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the templates of an environment in which everything optional is set."""
    # CDK starts Node.js when it is imported, so the right one is chosen first.
    use_bundled_node()
    from stacks.environment import build_environment, new_app

    assert catalog.facts is not None
    base = catalog.environments["dev"].value
    model = catalog.models["llama-3.3-70b"].value
    assert base is not None
    assert model is not None
    groups = {"system": {"instance_type": "ml.c5.4xlarge", "count": 0}}
    changed = {
        "account": "111122223333",
        "hyperpod": {
            "node_recovery": "none",
            "groups": {**groups, "prefill": gpu_group(PLAN), "decode": gpu_group(None)},
            "lifecycle_bucket": "sagemaker-scripts",
        },
        "operator": {
            "addon_version": "v1.5.0-eksbuild.1",
            "configuration": {"alb": {"enabled": False}, "affinity": {"nodeAffinity": {}}},
            "execution_role_name": "SageMakerHyperPodInference-ours",
            "tls_bucket": "our-certificates",
        },
        "addons": {"cert-manager": "v1.20.2-eksbuild.3"},
    }
    environment = Environment.model_validate({**base.model_dump(mode="json", by_alias=True), **changed})
    fsx = model.model_copy(
        update={
            "weights": model.weights.model_copy(update={"source": "fsx", "file_system_id": "fs-0123456789"})
        }
    )
    app = new_app(tmp_path_factory.mktemp("cdk.out"), builtin_cloud_formation_validation=False)
    build_environment(app, environment, [build_deployment(environment, fsx, catalog.facts)], catalog.facts)
    return {
        stack.stack_name.removeprefix("dpd-dev-"): stack.template
        for stack in app.synth().stacks
        if stack.stack_name.startswith("dpd-dev-")
    }


def of_type(template: Template, kind: str) -> list[Template]:
    return [item["Properties"] for item in template["Resources"].values() if item["Type"] == kind]


def joined(value: Any) -> str:
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(joined(part) for part in parts)
    return value if isinstance(value, str) else f"<{next(iter(value.values()))}>"


def groups_of(templates: dict[str, Template]) -> dict[str, Template]:
    (cluster,) = of_type(templates["hyperpod"], "AWS::SageMaker::Cluster")
    return {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}


def operator_addon(templates: dict[str, Template]) -> Template:
    (addon,) = (
        item
        for item in of_type(templates["operator"], "AWS::EKS::Addon")
        if item["AddonName"] == "amazon-sagemaker-hyperpod-inference"
    )
    return addon


def test_training_plan_reaches_its_group_alone(templates: dict[str, Template]) -> None:
    plans = {name: group.get("TrainingPlanArn") for name, group in groups_of(templates).items()}

    assert plans == {"system": None, "prefill": PLAN, "decode": None}


def test_further_labels_stand_beside_the_role(templates: dict[str, Template]) -> None:
    labels = groups_of(templates)["decode"]["KubernetesConfig"]["Labels"]

    assert labels == {"team": "search", "hyperpod-dpd/role": "decode"}


def test_empty_group_still_has_a_lifecycle_script(templates: dict[str, Template]) -> None:
    system = groups_of(templates)["system"]

    assert (system["InstanceCount"], system["MinInstanceCount"]) == (0, 0)
    assert system["LifeCycleConfig"]["OnCreate"] == "on_create.sh"


def test_node_recovery_can_be_off(templates: dict[str, Template]) -> None:
    (cluster,) = of_type(templates["hyperpod"], "AWS::SageMaker::Cluster")

    assert cluster["NodeRecovery"] == "None"


def test_existing_lifecycle_bucket_is_used_and_not_made(templates: dict[str, Template]) -> None:
    uri = groups_of(templates)["system"]["LifeCycleConfig"]["SourceS3Uri"]

    assert uri.startswith("s3://sagemaker-scripts/lifecycle/")
    assert not of_type(templates["hyperpod"], "AWS::S3::Bucket")


def test_nothing_is_deleted_from_an_existing_lifecycle_bucket(templates: dict[str, Template]) -> None:
    (upload,) = of_type(templates["hyperpod"], "Custom::AWS")

    assert "Delete" not in upload
    assert "s3:DeleteObject" not in json.dumps(templates["hyperpod"])


def test_existing_certificate_bucket_is_used_and_not_made(templates: dict[str, Template]) -> None:
    configuration = json.loads(joined(operator_addon(templates)["ConfigurationValues"]))

    assert configuration["tlsCertificateS3Bucket"] == "our-certificates"
    assert not of_type(templates["operator"], "AWS::S3::Bucket")


def test_certificate_bucket_outside_the_managed_policy_is_granted(templates: dict[str, Template]) -> None:
    (role,) = (
        item
        for item in of_type(templates["operator"], "AWS::IAM::Role")
        if item.get("RoleName") == "SageMakerHyperPodInference-ours"
    )
    granted = {
        resource: statement["Action"]
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if (resource := joined(statement["Resource"])).startswith("arn:aws:s3")
    }

    assert granted == {
        "arn:aws:s3:::our-certificates": "s3:ListBucket",
        "arn:aws:s3:::our-certificates/*": [
            "s3:DeleteObject",
            "s3:GetObject",
            "s3:PutObject",
            "s3:PutObjectTagging",
        ],
    }


def test_further_configuration_is_laid_over_ours(templates: dict[str, Template]) -> None:
    configuration = json.loads(joined(operator_addon(templates)["ConfigurationValues"]))

    assert configuration["alb"]["enabled"] is False
    assert configuration["alb"]["serviceAccount"]["create"] is True
    assert configuration["affinity"] == {"nodeAffinity": {}}


def test_versions_of_the_environment_win(templates: dict[str, Template]) -> None:
    versions = {
        item["AddonName"]: item["AddonVersion"] for item in of_type(templates["operator"], "AWS::EKS::Addon")
    }

    assert versions["cert-manager"] == "v1.20.2-eksbuild.3"
    assert versions["amazon-sagemaker-hyperpod-inference"] == "v1.5.0-eksbuild.1"


def test_no_object_is_readable_where_no_model_lies_in_the_bucket(templates: dict[str, Template]) -> None:
    assert 's3:GetObject"' not in json.dumps(
        [
            role
            for role in of_type(templates["operator"], "AWS::IAM::Role")
            if "s3-csi-driver-sa" in role.get("Description", "")
        ]
    )


def test_waiter_refuses_a_time_that_cloudformation_does_not_give(tmp_path: Path) -> None:
    use_bundled_node()
    import aws_cdk as cdk

    from dpd_constructs.waiter import Waiter, WaiterProps

    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "Stack")
    props = WaiterProps("nodes_ready.handler", [], timeout_s=3301)

    with pytest.raises(ValueError, match=r"^Stack/Wait: timeout_s is 3301; .* so 3300 is the most"):
        Waiter(stack, "Wait", props)


def test_role_needs_a_service_account_in_the_facts(catalog: Catalog) -> None:
    use_bundled_node()
    from dpd_constructs.addons import addon_service_account

    assert catalog.facts is not None

    with pytest.raises(ValueError, match="no service account"):
        addon_service_account(catalog.facts.addons["metrics-server"])
