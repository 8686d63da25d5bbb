"""Budget and nightly schedule: who is told, what is scaled, with which rights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
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


def leaves(value: Any, path: str = "") -> set[str]:
    """Return the dotted paths of everything in a part of a template, in lower case."""
    if isinstance(value, list):
        return {leaf for item in value for leaf in leaves(item, path)}
    whole = path.endswith("labels") or not isinstance(value, dict) or not value
    if whole or next(iter(value)).startswith(("Ref", "Fn::")):
        return {path}
    return {leaf for key, item in value.items() for leaf in leaves(item, f"{path}.{key}".strip(".").lower())}


def test_the_handler_must_know_every_field_of_the_template_at_any_depth(scheduled: Template) -> None:
    (cluster,) = of_type(scheduled, "AWS::SageMaker::Cluster").values()
    used = leaves(cluster["Properties"]["InstanceGroups"])

    assert "instancestorageconfigs.ebsvolumeconfig.volumekmskeyid" in used
    for event in events(scheduled).values():
        assert {field.lower() for field in event["Fields"]} == used


def test_the_sdk_of_today_knows_every_field_that_the_stacks_can_set(build: Build) -> None:
    from dpd_constructs.handlers.gpu_schedule import handler

    group = "hyperpod.groups.decode"
    template = build(
        "dev",
        {
            "schedule": NIGHT,
            "hyperpod.maintenance": {"schedule": "cron(0 0 ? * SUN *)", "rollback_alarms": ["slow"]},
            "hyperpod.deep_health_checks": ["InstanceStress"],
            "hyperpod.groups.system.secondary_volume_gb": 500,
            "hyperpod.groups.prefill.training_plan_arn": PLAN,
            f"{group}.capacity": "spot",
            f"{group}.fallback_instance_types": ["ml.p5e.48xlarge"],
            f"{group}.taints": [{"key": "gpu", "value": "yes"}],
        },
        models=[],
    )["hyperpod"]
    client = boto3.client(
        "sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x"
    )
    shape = client.meta.service_model.shape_for("ClusterInstanceGroupSpecification")

    for event in events(template).values():
        assert [field for field in event["Fields"] if not handler._knows(shape, field.split("."))] == []
        assert "scheduledUpdateConfig.deploymentConfig.autoRollbackConfiguration.alarmName" in event["Fields"]


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


def alarms(template: Template) -> list[dict[str, Any]]:
    return [item["Properties"] for item in of_type(template, "AWS::CloudWatch::Alarm").values()]


def queue(template: Template, part: str) -> tuple[str, dict[str, Any]]:
    ((name, item),) = (
        row
        for row in of_type(template, "AWS::SQS::Queue").items()
        if row[0].startswith(f"ScheduleQueues{part}")
    )
    return name, item["Properties"]


def arn_of(name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, "Arn"]}


def test_a_wish_is_tried_again_for_hours_and_then_kept(scheduled: Template) -> None:
    _, wishes = queue(scheduled, "Wishes")
    kept, _ = queue(scheduled, "GivenUp")

    assert wishes["RedrivePolicy"]["deadLetterTargetArn"] == arn_of(kept)
    assert wishes["RedrivePolicy"]["maxReceiveCount"] * wishes["VisibilityTimeout"] == 6 * 3600
    assert wishes["MessageRetentionPeriod"] > 6 * 3600


def test_a_failed_try_is_not_repeated_before_it_has_ended(scheduled: Template) -> None:
    _, wishes = queue(scheduled, "Wishes")
    (function,) = (
        item["Properties"]
        for name, item in of_type(scheduled, "AWS::Lambda::Function").items()
        if name.startswith("ScheduleFunction")
    )

    # Six times the function's own limit, says Lambda's guide on queues.
    assert wishes["VisibilityTimeout"] >= 6 * function["Timeout"]


def test_a_morning_waits_for_the_night_before_it(scheduled: Template) -> None:
    name, wishes = queue(scheduled, "Wishes")
    groups = {
        item["Properties"]["Target"]["SqsParameters"]["MessageGroupId"]
        for item in of_type(scheduled, "AWS::Scheduler::Schedule").values()
    }
    (mapping,) = of_type(scheduled, "AWS::Lambda::EventSourceMapping").values()

    assert wishes["FifoQueue"] is True
    assert wishes["ContentBasedDeduplication"] is True
    assert len(groups) == 1
    assert mapping["Properties"]["EventSourceArn"] == arn_of(name)
    assert mapping["Properties"]["BatchSize"] == 1


def test_no_two_wishes_look_the_same(scheduled: Template) -> None:
    for event in events(scheduled).values():
        assert event["Due"] == "<aws.scheduler.scheduled-time>"


def test_what_the_scheduler_cannot_send_is_kept_in_a_queue_that_it_takes(scheduled: Template) -> None:
    name, undelivered = queue(scheduled, "Undelivered")

    assert "FifoQueue" not in undelivered
    for item in of_type(scheduled, "AWS::Scheduler::Schedule").values():
        assert item["Properties"]["Target"]["DeadLetterConfig"] == {"Arn": arn_of(name)}


def test_the_scheduler_may_write_to_both_queues_and_do_nothing_else(scheduled: Template) -> None:
    (policy,) = (
        item["Properties"]["PolicyDocument"]["Statement"]
        for name, item in of_type(scheduled, "AWS::IAM::Policy").items()
        if name.startswith("ScheduleCallerRole")
    )
    (statement,) = policy

    assert statement["Action"] == "sqs:SendMessage"
    written = [arn_of(queue(scheduled, part)[0]) for part in ("Wishes", "Undelivered")]
    assert sorted(statement["Resource"], key=str) == sorted(written, key=str)


def test_every_way_to_fail_has_an_alarm(scheduled: Template) -> None:
    (function,) = (
        name for name in of_type(scheduled, "AWS::Lambda::Function") if name.startswith("ScheduleFunction")
    )
    visible = "ApproximateNumberOfMessagesVisible"
    heard = [
        (alarm["MetricName"], alarm["Threshold"], alarm["Dimensions"][0]["Value"])
        for alarm in alarms(scheduled)
    ]

    assert heard == [
        ("Errors", 1, {"Ref": function}),
        (visible, 1, {"Fn::GetAtt": [queue(scheduled, "GivenUp")[0], "QueueName"]}),
        (visible, 1, {"Fn::GetAtt": [queue(scheduled, "Undelivered")[0], "QueueName"]}),
    ]


def test_every_alarm_tells_the_topic_and_the_addresses_of_the_budget(scheduled: Template) -> None:
    (topic,) = of_type(scheduled, "AWS::SNS::Topic")
    mails = [item["Properties"] for item in of_type(scheduled, "AWS::SNS::Subscription").values()]

    assert [(mail["Protocol"], mail["Endpoint"]) for mail in mails] == [("email", "ml@example.com")]
    assert mails[0]["TopicArn"] == {"Ref": topic}
    for alarm in alarms(scheduled):
        assert alarm["AlarmActions"] == [{"Ref": topic}, TOPIC]


def test_alarms_of_this_account_may_publish_to_the_topic_of_the_addresses(scheduled: Template) -> None:
    (policy,) = of_type(scheduled, "AWS::SNS::TopicPolicy").values()
    (allowed,) = (
        statement
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    )

    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"monthly_usd": 1, "emails": ["ml@example.com"]}, 1),
        ({"monthly_usd": 1, "sns_topic_arn": TOPIC}, 1),
        ({"monthly_usd": 1, "sns_topic_arn": TOPIC.replace("us-west-2", "us-east-1")}, 0),
        (None, 0),
    ],
    ids=["mail", "topic", "topic of another region", "nobody"],
)
def test_who_hears_of_a_failed_night(build: Build, budget: dict[str, Any] | None, told: int) -> None:
    template = build("dev", {"schedule": NIGHT, "budget": budget}, models=[])["hyperpod"]

    for alarm in alarms(template):
        assert len(alarm.get("AlarmActions", [])) == told


def test_the_schedule_goes_before_the_cluster_it_scales(scheduled: Template) -> None:
    """CloudFormation deletes what refers to a resource before the resource."""
    (cluster,) = of_type(scheduled, "AWS::SageMaker::Cluster")

    for item in of_type(scheduled, "AWS::Scheduler::Schedule").values():
        assert {"Fn::GetAtt": [cluster, "ClusterArn"]} in item["Properties"]["Target"]["Input"]["Fn::Join"][1]
