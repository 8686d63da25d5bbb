"""What field reports ask of templates and no other test holds; each test carries the report's number."""

from __future__ import annotations

import json
from typing import Any

Templates = dict[str, dict[str, dict[str, Any]]]
RULES = {"AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"}


def test_p41_no_security_group_rule_stands_twice(environment_stacks: Templates) -> None:
    for environment, stacks in environment_stacks.items():
        for stack, template in stacks.items():
            rules = [
                json.dumps([item["Type"], {**item["Properties"], "Description": ""}], sort_keys=True)
                for item in template["Resources"].values()
                if item["Type"] in RULES
            ]
            assert len(rules) == len(set(rules)), f"{environment}: {stack}"


def test_p79_helm_gives_up_before_it_is_killed(environment_stacks: Templates) -> None:
    """A helm that is killed leaves its release pending, and the next update is refused."""
    for stacks in environment_stacks.values():
        resources = stacks["hyperpod"]["Resources"].values()
        (project,) = (item for item in resources if item["Type"] == "AWS::CodeBuild::Project")
        variables = project["Properties"]["Environment"]["EnvironmentVariables"]
        (timeout,) = (item["Value"] for item in variables if item["Name"] == "HELM_TIMEOUT")
        helm_minutes = int(timeout.removesuffix("m"))
        assert helm_minutes <= 12
        # Fetching, signing in and the first half of an upgrade come before.
        assert helm_minutes + 5 <= project["Properties"]["TimeoutInMinutes"]
