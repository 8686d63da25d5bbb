"""cdk-nag over every environment: each finding of two packs is mended, or explained for one resource.

What our own statements open is explained beside them (dpd_constructs.reasons); everything else in
policy/nag.yaml.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from dpd.iam_reference import environment_roles
from dpd.iam_roles import without_hashes
from dpd.validation import explained as nag

Place = tuple[str, str]


@pytest.fixture(scope="module")
def found(environment_app: Any, full_app: Any) -> dict[str, set[Place]]:
    """Return what both packs find in each environment, as pairs of rule and resource."""
    from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks

    places: dict[str, set[Place]] = {}
    for app, pack in product((environment_app, full_app), (AwsSolutionsChecks(), NIST80053R5Checks())):
        for violation in pack.validate_scope(app).violations:
            for resource in violation.violating_resources:
                _, environment, rest = resource.construct_path.split("-", 2)
                # The name of a security group's rule repeats the name of the stack.
                path = without_hashes(rest).replace(f"dpd{environment}", "dpd")
                rule = re.sub(r":(us|eu|ap|ca|sa)-[a-z]+-[0-9]:", ":<region>:", violation.rule_name)
                places.setdefault(environment, set()).add((without_hashes(rule), path))
    return places


@pytest.fixture(scope="module")
def ours(environment_app: Any, full_app: Any, found: dict[str, set[Place]]) -> set[str]:
    """Return the policies in which every statement with a `*` has its reason beside it."""
    from dpd_constructs.reasons import reasons

    known = reasons()
    opened: dict[str, bool] = {}
    for name in found:
        for role in environment_roles(full_app if name == "full" else environment_app, name):
            for statement in role.statements:
                if statement.open:
                    before = opened.get(statement.policy, True)
                    opened[statement.policy] = before and statement.sid in known
    return {path for path, clean in opened.items() if clean}


def explained_by_statement(place: Place, ours: set[str]) -> bool:
    return place[0].startswith("AwsSolutions-IAM5[") and place[1] in ours


def test_the_file_of_explanations_is_whole() -> None:
    table, findings = nag.explained()
    assert findings == []
    assert all(len(reason) > 20 for reason in table.values())


def test_a_reason_names_only_what_is_there(environment_app: Any, full_app: Any) -> None:
    paths = {
        without_hashes(node.path).split("-", 2)[2]
        for app in (environment_app, full_app)
        for stack in app.node.children
        if stack.node.id.startswith("dpd-")
        for node in (construct.node for construct in stack.node.find_all())
    }
    parts = "budget|security|network|weights|cluster|hyperpod|operator"
    named = re.findall(rf"\b(?:{parts})/[\w/]+", " ".join(nag.explained()[0].values()))

    assert named
    assert sorted(set(named) - paths) == []


def test_both_packs_look_at_every_environment(found: dict[str, set[Place]]) -> None:
    assert set(found) == {"dev", "staging", "prod", "full"}
    for places in found.values():
        assert {rule.partition("-")[0].partition(".")[0] for rule, _ in places} == {"AwsSolutions", "NIST"}


def test_no_finding_is_unexplained(found: dict[str, set[Place]], ours: set[str]) -> None:
    table, _ = nag.explained()
    places = set().union(*found.values())
    unexplained = {place for place in places if not explained_by_statement(place, ours)} - set(table)
    assert sorted(unexplained) == []


def test_no_explanation_outlives_its_finding(found: dict[str, set[Place]], ours: set[str]) -> None:
    table, _ = nag.explained()
    places = set().union(*found.values())
    stale = {place for place in table if place not in places or explained_by_statement(place, ours)}
    assert sorted(stale) == []


def test_an_explanation_covers_one_resource_and_no_pattern() -> None:
    for rule, resource in nag.explained()[0]:
        assert "*" not in resource, resource
        assert "/" in resource, resource
        assert not rule.endswith("*"), rule
