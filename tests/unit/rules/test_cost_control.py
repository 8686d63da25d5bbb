"""CST: budgets and schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
NIGHT = {"down": "cron(0 20 ? * MON-FRI *)", "up": "cron(0 7 ? * MON-FRI *)", "time_zone": "Europe/Berlin"}
MAIL = {"emails": ["ml@example.com"]}
HEARD = {"budget": {"monthly_usd": 1_000_000, **MAIL}}
NIGHTLY = {**HEARD, "schedule": NIGHT}
TOPIC = "arn:aws:sns:us-west-2:111122223333:cost"
SUNDAY = "hyperpod.maintenance"
DAILY = {"down": "cron(0 20 * * ? *)", "up": "cron(0 7 * * ? *)"}


def at(hour: int) -> dict[str, str]:
    """Return a window on Sundays, in UTC; NIGHT's hours fall on working days."""
    return {"schedule": f"cron(0 {hour} ? * SUN *)"}


CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "CST001 schedule in production": (
        "CST001",
        {"prod": NIGHTLY},
        "schedule",
        ["protected"],
        {"staging": NIGHTLY},
    ),
    "CST002 every group is paid for in advance": (
        "CST002",
        {
            "dev": {
                **NIGHTLY,
                "hyperpod.groups.prefill.training_plan_arn": PLAN,
                "hyperpod.groups.decode.training_plan_arn": PLAN,
            }
        },
        "schedule",
        ["no GPU group"],
        {"dev": {**NIGHTLY, "hyperpod.groups.prefill.training_plan_arn": PLAN}},
    ),
    "CST002 no group has nodes": (
        "CST002",
        {"dev": {**NIGHTLY, "hyperpod.groups.prefill.count": 0, "hyperpod.groups.decode.count": 0}},
        "schedule",
        ["no GPU group"],
        {"dev": {**NIGHTLY, "hyperpod.groups.prefill.count": 0}},
    ),
    "CST003 budget below the nodes' price": (
        "CST003",
        {"dev": {"budget": {"monthly_usd": 500, **MAIL}}},
        "budget.monthly_usd",
        ["USD a month"],
        {"dev": {"budget": {"monthly_usd": 100_000, **MAIL}}},
    ),
    "CST003 budget below the price of the hours with nodes": (
        "CST003",
        {"dev": {"budget": {"monthly_usd": 30_000, **MAIL}, "schedule": NIGHT}},
        "budget.monthly_usd",
        ["without the hours of the schedule", "or let them go earlier"],
        {"dev": {"budget": {"monthly_usd": 60_000, **MAIL}, "schedule": NIGHT}},
    ),
    "CST003 a schedule that saves too little": (
        "CST003",
        {"dev": {"budget": {"monthly_usd": 60_000, **MAIL}}},
        "budget.monthly_usd",
        ["USD a month;", "add a schedule"],
        {"dev": {"budget": {"monthly_usd": 60_000, **MAIL}, "schedule": NIGHT}},
    ),
    "CST004 window that opens hours before the nodes come back": (
        "CST004",
        {"dev": {**NIGHTLY, "schedule": DAILY, SUNDAY: at(2)}},
        "hyperpod.maintenance.schedule",
        ["window of Sunday 02:00 UTC", "hour of Sunday 07:00 UTC"],
        {"dev": {**NIGHTLY, "schedule": DAILY, SUNDAY: at(1)}},
    ),
    "CST004 window just after the nodes have gone": (
        "CST004",
        {"dev": {**NIGHTLY, "schedule": DAILY, SUNDAY: {"schedule": "cron(59 20 ? * SUN *)"}}},
        "hyperpod.maintenance.schedule",
        ["window of Sunday 20:59 UTC", "hour of Sunday 20:00 UTC"],
        {"dev": {**NIGHTLY, "schedule": DAILY, SUNDAY: at(21)}},
    ),
    "CST004 window in another time zone, which comes close in summer": (
        "CST004",
        {"dev": {**NIGHTLY, "schedule": {**DAILY, "time_zone": "Europe/Berlin"}, SUNDAY: at(0)}},
        "hyperpod.maintenance.schedule",
        ["window of Sunday 00:00 UTC", "hour of Sunday 05:00 UTC"],
        {"dev": {**NIGHTLY, SUNDAY: at(0)}},
    ),
    "CST005 no budget": (
        "CST005",
        {"dev": {"schedule": NIGHT}},
        "schedule",
        ["nobody hears", "us-west-2"],
        {"dev": {"schedule": NIGHT, **HEARD}},
    ),
    "CST005 topic of another region": (
        "CST005",
        {
            "dev": {
                "schedule": NIGHT,
                "budget": {
                    "monthly_usd": 1_000_000,
                    "sns_topic_arn": TOPIC.replace("us-west-2", "us-east-1"),
                },
            }
        },
        "schedule",
        ["us-west-2"],
        {"dev": {"schedule": NIGHT, "budget": {"monthly_usd": 1_000_000, "sns_topic_arn": TOPIC}}},
    ),
}


@pytest.mark.parametrize(("id", "bad", "path", "says", "good"), CASES.values(), ids=CASES.keys())
def test_rule(
    one_rule: Callable[..., None],
    id: str,
    bad: dict[str, Any],
    path: str,
    says: list[str],
    good: dict[str, Any],
) -> None:
    one_rule(id, bad, path, says, good)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("budget", {"monthly_usd": 100}, "emails or sns_topic_arn"),
        ("budget", {"monthly_usd": 0, **MAIL}, "greater than 0"),
        ("budget", {"monthly_usd": 100, "emails": ["nobody"]}, "emails"),
        ("schedule", {**NIGHT, "time_zone": "Europe/Atlantis"}, "IANA"),
        ("schedule", {**NIGHT, "down": "cron(0 20 * * *)"}, "schedule.down"),
        ("schedule", {**NIGHT, "down": "rate(1 day)"}, "schedule.down"),
        ("schedule", {**NIGHT, "down": "cron(0 20 ? * ? *)"}, "schedule.down"),
        ("schedule", {**NIGHT, "down": "cron(0 24 ? * MON *)"}, "wants 0 to 23"),
        ("schedule", {**NIGHT, "up": "cron(0 7 ? * MO *)"}, "wants 1 to 7"),
    ],
)
def test_wrong_values_are_found_before_deployment(
    check: Callable[..., list[Any]], key: str, value: object, says: str
) -> None:
    (found,) = check(dev={key: value})

    assert found.id == "CFG003"
    assert says in found.text()
