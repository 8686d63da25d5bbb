"""The logs of CDK's own functions: no group that a function may have made before CloudFormation does."""

from __future__ import annotations

import json
from typing import Any

import pytest

Template = dict[str, Any]
Stacks = dict[str, dict[str, Template]]


@pytest.fixture(params=["dev", "staging", "prod"])
def stacks(request: pytest.FixtureRequest, environment_stacks: Stacks) -> dict[str, Template]:
    return environment_stacks[request.param]


def named_after_a_function(template: Template) -> set[str]:
    """Return the functions whose default log group the stack declares beside them."""
    names = [
        json.dumps(item["Properties"].get("LogGroupName"))
        for item in template["Resources"].values()
        if item["Type"] == "AWS::Logs::LogGroup"
    ]
    return {
        function
        for function, item in template["Resources"].items()
        if item["Type"] == "AWS::Lambda::Function"
        if any("/aws/lambda/" in name and f'"{function}"' in name for name in names)
    }


def run_in_their_own_stack(template: Template) -> set[str]:
    """Return the functions that custom resources of the same stack call while it deploys."""
    tokens = [
        item["Properties"]["ServiceToken"]
        for item in template["Resources"].values()
        if "ServiceToken" in item.get("Properties", {})
    ]
    return {token["Fn::GetAtt"][0] for token in tokens if "Fn::GetAtt" in token}


@pytest.mark.parametrize("stack", ["network", "cluster", "hyperpod", "operator"])
def test_no_function_runs_before_its_own_log_group_exists(stacks: dict[str, Template], stack: str) -> None:
    called = run_in_their_own_stack(stacks[stack])

    assert called
    assert called & named_after_a_function(stacks[stack]) == set()


@pytest.mark.parametrize("stack", ["network", "cluster", "hyperpod"])
def test_calls_of_one_stack_share_one_log_group(stacks: dict[str, Template], stack: str) -> None:
    resources = stacks[stack]["Resources"]
    (function,) = (
        item
        for name, item in resources.items()
        if name.startswith("AWS679") and item["Type"] == "AWS::Lambda::Function"
    )
    group = function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]

    assert resources[group]["Type"] == "AWS::Logs::LogGroup"
    assert "LogGroupName" not in resources[group]["Properties"]
