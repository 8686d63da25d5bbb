"""CST: budgets and schedules that would not do what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.sizing.capacity import scheduled_groups
from dpd.sizing.cost import cost


@environment_rule(
    "CST001",
    Severity.ERROR,
    Doc(
        title="Schedule in a protected environment",
        symptom="Production answers nothing at night.",
        cause="The schedule takes every GPU node away.",
        fix="Remove `schedule`, or `protected`.",
        source="docs/cost.md",
        bad='protected: true\nschedule: {down: "cron(0 20 * * ? *)", up: "cron(0 7 * * ? *)"}',
        good='protected: false\nschedule: {down: "cron(0 20 * * ? *)", up: "cron(0 7 * * ? *)"}',
    ),
)
def schedule_protected(context: EnvironmentContext) -> Iterable[Hit]:
    """Refuse a schedule where the environment is protected."""
    if context.environment.protected and context.environment.schedule:
        yield _hit(("schedule",), "a protected environment keeps its nodes at night", "remove it")


@environment_rule(
    "CST002",
    Severity.ERROR,
    Doc(
        title="Schedule with nothing to scale",
        symptom="Nothing changes at night.",
        cause="A training plan is paid for whether its nodes run or not, and a group of 0 has none.",
        fix="Remove `schedule`, or give a GPU group on-demand or Spot nodes.",
        source="docs/cost.md",
        bad="schedule: {...}  # and every GPU group has a training plan",
        good="schedule: {...}  # and decode has no training plan",
    ),
)
def schedule_idle(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a schedule that no group follows."""
    if context.environment.schedule and not scheduled_groups(context.environment):
        yield _hit(("schedule",), "no GPU group has nodes that cost less when they are gone", "remove it")


@environment_rule(
    "CST003",
    Severity.WARNING,
    Doc(
        title="Budget below what the nodes cost",
        symptom="The alarm comes every month, and nobody reads it any more.",
        cause="The nodes alone, running all month, cost more than `budget.monthly_usd`.",
        fix="Raise the budget, take fewer nodes, or add a schedule.",
        source="docs/cost.md",
        bad="budget: {monthly_usd: 500, emails: [ml@example.com]}  # two ml.p5.48xlarge",
        good="budget: {monthly_usd: 100000, emails: [ml@example.com]}",
    ),
)
def budget_too_small(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare the budget with the plan's price; hours that a schedule saves are not counted."""
    environment = context.environment
    if environment.budget is None or environment.schedule is not None:
        return
    expected = cost(environment, context.facts).usd_per_month
    if expected > environment.budget.monthly_usd:
        yield Hit(
            path=("budget", "monthly_usd"),
            message=f"the nodes cost about {expected:,.0f} USD a month",
            got=environment.budget.monthly_usd,
            allowed=f"{expected:.0f} or more",
            fix="raise it, take fewer nodes, or add a schedule",
            owner="environment",
        )


def _hit(path: tuple[str, ...], message: str, fix: str) -> Hit:
    return Hit(path=path, message=message, fix=fix, owner="environment")
