"""CST: budgets and schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
NIGHT = {"down": "cron(0 20 ? * MON-FRI *)", "up": "cron(0 7 ? * MON-FRI *)", "time_zone": "Europe/Berlin"}
MAIL = {"emails": ["ml@example.com"]}

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "CST001 schedule in production": (
        "CST001",
        {"prod": {"schedule": NIGHT}},
        "schedule",
        ["protected"],
        {"staging": {"schedule": NIGHT}},
    ),
    "CST002 every group is paid for in advance": (
        "CST002",
        {
            "dev": {
                "schedule": NIGHT,
                "hyperpod.groups.prefill.training_plan_arn": PLAN,
                "hyperpod.groups.decode.training_plan_arn": PLAN,
            }
        },
        "schedule",
        ["no GPU group"],
        {"dev": {"schedule": NIGHT, "hyperpod.groups.prefill.training_plan_arn": PLAN}},
    ),
    "CST002 no group has nodes": (
        "CST002",
        {"dev": {"schedule": NIGHT, "hyperpod.groups.prefill.count": 0, "hyperpod.groups.decode.count": 0}},
        "schedule",
        ["no GPU group"],
        {"dev": {"schedule": NIGHT, "hyperpod.groups.prefill.count": 0}},
    ),
    "CST003 budget below the nodes' price": (
        "CST003",
        {"dev": {"budget": {"monthly_usd": 500, **MAIL}}},
        "budget.monthly_usd",
        ["USD a month"],
        {"dev": {"budget": {"monthly_usd": 500, **MAIL}, "schedule": NIGHT}},
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
    ],
)
def test_wrong_values_are_found_before_deployment(
    check: Callable[..., list[Any]], key: str, value: object, says: str
) -> None:
    (found,) = check(dev={key: value})

    assert found.id == "CFG003"
    assert says in found.text()
