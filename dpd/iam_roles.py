"""Read the IAM roles out of synthesised templates, in a form that people and tests can compare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Template = Mapping[str, Any]
Paths = Mapping[str, str]
"""Logical id of a resource to its construct path, without the environment's prefix."""

_HASH = re.compile(r"(?<=[a-zA-Z])[0-9A-F]{8}(?![0-9A-Fa-f])")


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one statement; ``policy`` is the construct path of the resource that it stands in."""

    policy: str
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Any]

    @property
    def open(self) -> bool:
        """Tell whether a `*` is in an action or a resource."""
        return any("*" in text for text in (*self.actions, *self.resources))


@dataclass(frozen=True, slots=True)
class Role:
    """Hold one role: who assumes it and what it may do."""

    path: str
    name: str
    description: str
    trust: tuple[Mapping[str, Any], ...]
    managed: tuple[str, ...]
    statements: tuple[Statement, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything that a review compares."""
        return {
            "path": self.path,
            "name": self.name,
            "trust": list(self.trust),
            "managed": list(self.managed),
            "statements": [
                {
                    "sid": item.sid,
                    "actions": list(item.actions),
                    "resources": list(item.resources),
                    "condition": item.condition,
                }
                for item in self.statements
            ],
        }


def without_hashes(text: str) -> str:
    """Return a text without the eight digits that CDK puts behind logical ids."""
    return _HASH.sub("", text)


def readable(value: Any, resources: Template) -> Any:
    """Return a part of a template with intrinsic functions as `<...>` and without hashes."""
    if isinstance(value, str):
        return without_hashes(value)
    if isinstance(value, list):
        return [readable(item, resources) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    key = next(iter(mapping), "")
    if key == "Ref" or key.startswith("Fn::"):
        return _intrinsic(key, mapping[key], resources)
    return {name: readable(item, resources) for name, item in mapping.items()}


def _intrinsic(function: str, argument: Any, resources: Template) -> Any:
    if function == "Fn::Join":
        return str(argument[0]).join(readable(part, resources) for part in argument[1])
    if function == "Fn::Sub" and isinstance(argument, str):
        return without_hashes(re.sub(r"\$\{([^}]+)\}", r"<\1>", argument))
    if function == "Fn::If":
        return readable(argument[1], resources)
    if function == "Fn::Select" and ":oidc-provider/" in json.dumps(argument):
        return "<issuer>"
    if function == "Fn::GetAtt" and resources[argument[0]]["Type"] == "Custom::AWSCDKCfnJson":
        return json.loads(readable(resources[argument[0]]["Properties"]["Value"], resources))
    names = {
        "Ref": lambda: argument,
        "Fn::GetAtt": lambda: ".".join(argument),
        "Fn::ImportValue": lambda: f"import {argument}",
    }
    name = names.get(function, lambda: f"{function} {json.dumps(argument)}")
    return without_hashes(f"<{name()}>")


def roles_of(template: Template, paths: Paths) -> list[Role]:
    """Return every role of one template, with the policies that are attached to it."""
    resources = cast("Template", template["Resources"])
    return [
        _role(logical_id, item["Properties"], resources, paths)
        for logical_id, item in resources.items()
        if item["Type"] == "AWS::IAM::Role"
    ]


def _role(logical_id: str, properties: Template, resources: Template, paths: Paths) -> Role:
    documents = [
        (paths[logical_id], policy["PolicyDocument"]) for policy in properties.get("Policies", ())
    ] + [
        (paths[name], item["Properties"]["PolicyDocument"])
        for name, item in resources.items()
        if item["Type"] in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}
        and {"Ref": logical_id} in item["Properties"].get("Roles", ())
    ]
    return Role(
        path=paths[logical_id],
        name=str(readable(properties.get("RoleName", ""), resources)),
        description=str(properties.get("Description", "")),
        trust=tuple(readable(properties["AssumeRolePolicyDocument"]["Statement"], resources)),
        managed=tuple(
            str(readable(arn, resources)).rpartition("policy/")[2]
            for arn in properties.get("ManagedPolicyArns", ())
        ),
        statements=tuple(
            _statement(path, statement, resources)
            for path, document in documents
            for statement in document["Statement"]
        ),
    )


def _statement(policy: str, statement: Template, resources: Template) -> Statement:
    return Statement(
        policy=policy,
        sid=str(statement.get("Sid", "")),
        actions=_texts(statement["Action"], resources),
        resources=_texts(statement["Resource"], resources),
        condition=readable(statement.get("Condition", {}), resources),
    )


def _texts(value: Any, resources: Template) -> tuple[str, ...]:
    rows = cast("Sequence[Any]", value if isinstance(value, list) else [value])
    return tuple(str(readable(row, resources)) for row in rows)
