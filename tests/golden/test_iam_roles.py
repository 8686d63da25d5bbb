"""The two roles that hold the most, whole: a reviewer reads every grant and every change of one.

After an intended change write the files anew with `UPDATE_GOLDEN=1 pytest
tests/golden/test_iam_roles.py`, and read the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent

Template = dict[str, Any]


def readable(value: Any, resources: Template) -> Any:
    """Return a part of a template with intrinsic functions as `<...>`."""
    if isinstance(value, list):
        return [readable(item, resources) for item in value]
    if not isinstance(value, dict):
        return value
    (key, inner) = next(iter(value.items()), ("", None))
    if key == "Fn::Join":
        return inner[0].join(readable(part, resources) for part in inner[1])
    if key == "Fn::ImportValue":
        return f"<import {inner}>"
    if key == "Fn::Select" and ":oidc-provider/" in json.dumps(inner):
        return "<issuer>"
    if key == "Fn::GetAtt" and resources[inner[0]]["Type"] == "Custom::AWSCDKCfnJson":
        return json.loads(readable(resources[inner[0]]["Properties"]["Value"], resources))
    if key in {"Fn::GetAtt", "Ref"}:
        return f"<{'.'.join(inner) if isinstance(inner, list) else inner}>"
    return {name: readable(item, resources) for name, item in value.items()}


@pytest.mark.parametrize(
    ("stack", "prefix"),
    [("hyperpod", "ExecutionRole"), ("operator", "OperatorExecutionRole")],
    ids=["P-06-hyperpod", "P-30-operator"],
)
def test_role_is_as_reviewed(
    environment_stacks: dict[str, dict[str, Template]], stack: str, prefix: str
) -> None:
    resources = environment_stacks["dev"][stack]["Resources"]
    (name,) = (
        name
        for name, item in resources.items()
        if item["Type"] == "AWS::IAM::Role" and name.startswith(prefix)
    )
    attached = [
        item
        for item in resources.values()
        if item["Type"] == "AWS::IAM::Policy" and {"Ref": name} in item["Properties"].get("Roles", [])
    ]
    document = {key: value for key, value in resources[name]["Properties"].items() if key != "Tags"}
    # The hashes of logical ids belong to other tests.
    role = re.sub(r"[0-9A-F]{8}", "", json.dumps(readable(document, resources), indent=2)) + "\n"
    golden = GOLDEN / f"{stack}-execution-role.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(role, encoding="utf-8")

    assert role == golden.read_text(encoding="utf-8")
    assert attached == [], "rights outside the role's own document escape this review"
