"""Budget and nightly schedule: who is told, what is scaled, with which rights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Template = dict[str, Any]
Built = dict[str, Template]
Build = Callable[..., Built]

TOPIC = "arn:aws:sns:us-west-2:111122223333:cost"
BUDGET = {"monthly_usd": 5000, "emails": ["ml@example.com"], "sns_topic_arn": TOPIC}
NIGHT = {"down": "cron(0 20 ? * MON-FRI *)", "up": "cron(0 7 ? * MON-FRI *)", "time_zone": "Europe/Berlin"}
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"


def of_type(template: Template, kind: str) -> dict[str, Template]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def joined(value: Any) -> str:
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(joined(part) for part in parts)
    return value if isinstance(value, str) else "<token>"


@pytest.fixture(scope="module")
def scheduled(build: Build) -> Template:
    changes = {
        "schedule": NIGHT,
        "budget": BUDGET,
        "hyperpod.groups.prefill.count": 3,
        "hyperpod.groups.prefill.training_plan_arn": PLAN,
        "hyperpod.groups.decode.count": 2,
    }
    return build("dev", changes, models=[])["hyperpod"]


def events(template: Template) -> dict[str, dict[str, Any]]:
    return {
        item["Properties"]["ScheduleExpression"]: json.loads(joined(item["Properties"]["Target"]["Input"]))
        for item in of_type(template, "AWS::Scheduler::Schedule").values()
    }


def test_without_a_wish_there_is_neither_budget_nor_schedule(build: Build) -> None:
    built = build("dev")

    assert "budget" not in built
    assert not of_type(built["hyperpod"], "AWS::Scheduler::Schedule")


def test_the_budget_counts_what_carries_the_environments_tag(build: Build) -> None:
    (budget,) = of_type(
        build("dev", {"budget": BUDGET}, models=[])["budget"], "AWS::Budgets::Budget"
    ).values()
    data = budget["Properties"]["Budget"]

    assert data["BudgetLimit"] == {"Amount": 5000, "Unit": "USD"}
    assert (data["BudgetType"], data["TimeUnit"]) == ("COST", "MONTHLY")
    assert data["CostFilters"] == {"TagKeyValue": ["user:hyperpod-dpd/environment$dev"]}
    assert "BudgetName" not in data, "a replaced budget would meet its own name"


def test_everybody_is_told_before_at_and_beyond_the_budget(build: Build) -> None:
    (budget,) = of_type(
        build("dev", {"budget": BUDGET}, models=[])["budget"], "AWS::Budgets::Budget"
    ).values()
    rows = budget["Properties"]["NotificationsWithSubscribers"]

    assert [(row["Notification"]["NotificationType"], row["Notification"]["Threshold"]) for row in rows] == [
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]
    for row in rows:
        assert row["Subscribers"] == [
            {"SubscriptionType": "EMAIL", "Address": "ml@example.com"},
            {"SubscriptionType": "SNS", "Address": TOPIC},
        ]


def test_the_budget_waits_for_nothing(build: Build) -> None:
    template = build("dev", {"budget": BUDGET}, models=[])["budget"]

    assert "Fn::ImportValue" not in json.dumps(template)


def test_down_is_zero_and_up_is_the_configured_count(scheduled: Template) -> None:
    counts = {expression: event["Counts"] for expression, event in events(scheduled).items()}

    assert counts == {NIGHT["down"]: {"decode": 0}, NIGHT["up"]: {"decode": 2}}


def test_what_is_paid_in_advance_and_the_system_group_are_never_named(scheduled: Template) -> None:
    for event in events(scheduled).values():
        assert not {"system", "prefill"} & set(event["Counts"])


def test_hours_are_those_of_the_time_zone_and_exact(scheduled: Template) -> None:
    for item in of_type(scheduled, "AWS::Scheduler::Schedule").values():
        assert item["Properties"]["ScheduleExpressionTimezone"] == "Europe/Berlin"
        assert item["Properties"]["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_the_handler_must_know_every_field_of_the_template(scheduled: Template) -> None:
    (cluster,) = of_type(scheduled, "AWS::SageMaker::Cluster").values()
    used = {key for group in cluster["Properties"]["InstanceGroups"] for key in group}

    for event in events(scheduled).values():
        assert event["Fields"] == sorted(used)


def test_the_handler_changes_this_cluster_and_passes_its_role_to_sagemaker_alone(scheduled: Template) -> None:
    (cluster,) = of_type(scheduled, "AWS::SageMaker::Cluster")
    statements = [
        statement
        for name, policy in of_type(scheduled, "AWS::IAM::Policy").items()
        if name.startswith("ScheduleRole")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    by_action = {
        action: statement
        for statement in statements
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }

    assert by_action["sagemaker:UpdateCluster"]["Resource"] == {"Fn::GetAtt": [cluster, "ClusterArn"]}
    assert "ExecutionRole" in str(by_action["iam:PassRole"]["Resource"])
    assert by_action["iam:PassRole"]["Condition"] == {
        "StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}
    }
    assert by_action["kms:CreateGrant"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert all(statement["Resource"] != "*" for statement in statements)


def test_only_the_scheduler_of_this_account_may_call(scheduled: Template) -> None:
    (role,) = (
        item["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]
        for name, item in of_type(scheduled, "AWS::IAM::Role").items()
        if name.startswith("ScheduleCaller")
    )

    assert role["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert role["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_a_night_that_failed_is_told(scheduled: Template) -> None:
    (alarm,) = of_type(scheduled, "AWS::CloudWatch::Alarm").values()

    assert (alarm["Properties"]["MetricName"], alarm["Properties"]["Threshold"]) == ("Errors", 1)
    assert alarm["Properties"]["AlarmActions"] == [TOPIC]


def test_the_schedule_goes_before_the_cluster_it_scales(scheduled: Template) -> None:
    """CloudFormation deletes what refers to a resource before the resource."""
    (cluster,) = of_type(scheduled, "AWS::SageMaker::Cluster")

    for item in of_type(scheduled, "AWS::Scheduler::Schedule").values():
        assert {"Fn::GetAtt": [cluster, "ClusterArn"]} in item["Properties"]["Target"]["Input"]["Fn::Join"][1]
