"""The wait for the operator's definition, in the form in which the API server returns one."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

Poll = Callable[..., dict[str, Any]]
NAME = "inferenceendpointconfigs.inference.sagemaker.aws.amazon.com"
ASKED = {"Check": "definition", "Definition": NAME, "Version": "v1", "AddonVersion": "v1.4.0-eksbuild.1"}
CRD = Path(os.environ.get("DPD_CRD", "not given"))


def version(name: str, *, served: bool, fields: list[str]) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "object"} for field in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {}}}}
    return {"name": name, "served": served, "storage": name == "v1", "schema": schema}


DEFINITION: dict[str, Any] = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": NAME},
    "spec": {
        "group": "inference.sagemaker.aws.amazon.com",
        "versions": [
            version("v1alpha1", served=True, fields=["modelName", "worker"]),
            version("v1", served=True, fields=["modelName", "worker", "pdSpec"]),
        ],
    },
    "status": {
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
        ]
    },
}


def answered(definition: Mapping[str, Any]) -> Any:
    def ask(path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        assert path == f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
        assert body is None
        return definition

    return ask


def test_complete_once_the_served_version_has_pd_spec(poll: Poll) -> None:
    assert poll(answered(DEFINITION), **ASKED) == {"IsComplete": True}


@pytest.mark.skipif(not CRD.is_file(), reason="set DPD_CRD to the file of the operator's CRD")
def test_the_operators_own_definition_is_complete(poll: Poll) -> None:
    real = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)

    assert poll(answered({**real, "status": DEFINITION["status"]}), **ASKED) == {"IsComplete": True}


def older(definition: dict[str, Any]) -> None:
    definition["spec"]["versions"][1] = version("v1", served=True, fields=["modelName", "worker"])


def unserved(definition: dict[str, Any]) -> None:
    definition["spec"]["versions"][1]["served"] = False


def not_established(definition: dict[str, Any]) -> None:
    definition["status"]["conditions"][1] |= {"status": "False", "reason": "Installing"}


def just_made(definition: dict[str, Any]) -> None:
    del definition["status"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (older, f"v1 of {NAME} has no pdSpec"),
        (unserved, f"{NAME} is served as v1alpha1, not as v1"),
        (not_established, r"is not established \(Installing\)"),
        (just_made, r"is not established \(unknown\)"),
    ],
    ids=["an operator before v3.2", "version not served", "not established", "just made"],
)
def test_anything_less_is_waited_out_and_then_told(
    poll: Poll, damage: Callable[[dict[str, Any]], None], says: str
) -> None:
    definition = copy.deepcopy(DEFINITION)
    damage(definition)

    assert poll(answered(definition), **ASKED) == {"IsComplete": False}
    with pytest.raises(RuntimeError, match=says):
        poll(answered(definition), waited_s=900, **ASKED)


def test_an_absent_definition_is_waited_out_and_then_told(
    server: Any, poll_server: Callable[..., dict[str, Any]]
) -> None:
    message = f'customresourcedefinitions.apiextensions.k8s.io "{NAME}" not found'
    server.code, server.body = 404, {"kind": "Status", "message": message, "reason": "NotFound", "code": 404}

    assert poll_server(**ASKED) == {"IsComplete": False}
    with pytest.raises(RuntimeError, match=f'the API server says 404 .*"{NAME}" not found'):
        poll_server(**ASKED, waited_s=900)
