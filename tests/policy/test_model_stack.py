"""What the template of one model must hold, and in which order stacks can go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpd.spec.catalog import Catalog

Template = dict[str, Any]
Stacks = dict[str, Template]

RESOURCE = "Custom::AWSCDK-EKS-KubernetesResource"
STAGES = ("network", "cluster", "hyperpod", "operator")


@pytest.fixture(params=["dev", "staging", "prod"])
def stacks(request: pytest.FixtureRequest, environment_stacks: dict[str, Stacks]) -> Stacks:
    return environment_stacks[request.param]


@pytest.fixture
def model(stacks: Stacks) -> Template:
    return stacks["model-llama-3-3-70b"]


def joined(value: Any) -> str:
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(joined(part) for part in parts)
    return value if isinstance(value, str) else f"<{next(iter(value.values()))}>"


def applied(template: Template) -> dict[str, tuple[str, Template]]:
    """Return logical id and resource of each applied manifest by its kind."""
    found: dict[str, tuple[str, Template]] = {}
    for logical_id, item in template["Resources"].items():
        if item["Type"] == RESOURCE:
            (manifest,) = json.loads(joined(item["Properties"]["Manifest"]))
            found[manifest["kind"]] = (logical_id, item)
    return found


def imports(template: Template) -> set[str]:
    """Return the stack suffixes whose exports a template imports."""
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("Fn::ImportValue"), str):
                found.add(value["Fn::ImportValue"].split(":")[0].split("-", 2)[2])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(template)
    return found


def test_manifests_lie_in_the_stack_of_the_model(stacks: Stacks, model: Template) -> None:
    assert set(applied(model)) == {"Namespace", "InferenceEndpointConfig"}
    for stage in STAGES:
        assert 'InferenceEndpointConfig\\"' not in json.dumps(stacks[stage]["Resources"])


def test_endpoint_comes_after_its_namespace(model: Template) -> None:
    namespace, _ = applied(model)["Namespace"]

    assert applied(model)["InferenceEndpointConfig"][1]["DependsOn"] == [namespace]


def test_shared_namespace_may_exist_and_outlives_the_model(model: Template) -> None:
    _, namespace = applied(model)["Namespace"]

    # Without it the second model fails with `already exists` (aws/aws-cdk#25881).
    assert namespace["Properties"]["Overwrite"] is True
    assert namespace["DeletionPolicy"] == "Retain"


def test_endpoint_goes_with_the_stack(model: Template) -> None:
    _, endpoint = applied(model)["InferenceEndpointConfig"]

    assert endpoint["DeletionPolicy"] == "Delete"
    assert endpoint["Properties"]["Overwrite"] is False


def test_manifest_is_applied_as_rendered(model: Template) -> None:
    for _, item in applied(model).values():
        assert "PruneLabel" not in item["Properties"]
        assert "aws.cdk.eks/prune" not in json.dumps(item)


def test_endpoint_names_the_buckets_of_the_other_stacks(model: Template) -> None:
    (manifest,) = json.loads(joined(applied(model)["InferenceEndpointConfig"][1]["Properties"]["Manifest"]))

    assert "-weights:" in manifest["spec"]["modelSourceConfig"]["s3Storage"]["bucketName"]
    assert "-operator:" in manifest["spec"]["tlsConfig"]["tlsCertificateOutputS3Uri"]


def test_operator_cannot_go_before_its_endpoints(model: Template) -> None:
    assert "Crd" in joined(model["Outputs"]["OperatorCrd"]["Value"])
    assert "operator" in imports(model)


@pytest.mark.parametrize("index", range(len(STAGES)), ids=STAGES)
def test_no_stage_needs_a_later_one(stacks: Stacks, index: int) -> None:
    later = {*STAGES[index + 1 :], "model-llama-3-3-70b"}

    assert not imports(stacks[STAGES[index]]) & later


@pytest.mark.parametrize(("stage", "needs"), list(zip(STAGES[1:], STAGES, strict=False)))
def test_teardown_order_is_enforced_by_imports(stacks: Stacks, stage: str, needs: str) -> None:
    assert needs in imports(stacks[stage])


def test_every_model_of_every_environment_has_a_stack(
    catalog: Catalog, environment_stacks: dict[str, Stacks]
) -> None:
    for name, templates in environment_stacks.items():
        environment = catalog.environments[name].value
        assert environment is not None
        wanted = {f"model-{model.replace('.', '-')}" for model in environment.models}
        assert {suffix for suffix in templates if suffix.startswith("model-")} == wanted
