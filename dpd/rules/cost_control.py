"""CST: budgets and schedules that would not do what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.sizing.capacity import scheduled_groups
from dpd.sizing.nights import SCALING_HOURS, overlap, usd_per_month
from dpd.spec.cost_control import RETRY_HOURS

_NIGHT = 'schedule: {down: "cron(0 20 * * ? *)", up: "cron(0 7 * * ? *)"}'


@environment_rule(
    "CST001",
    Severity.ERROR,
    Doc(
        title="Schedule in a protected environment",
        symptom="Production answers nothing at night.",
        cause="The schedule takes every GPU node away.",
        fix="Remove `schedule`, or `protected`.",
        source="docs/cost.md",
        bad=f"protected: true\n{_NIGHT}",
        good=f"protected: false\n{_NIGHT}",
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
        cause="The nodes alone cost more than `budget.monthly_usd`, also without the hours of `schedule`.",
        fix="Raise the budget, take fewer nodes, or let them go for more hours.",
        source="docs/cost.md",
        bad="budget: {monthly_usd: 500, emails: [ml@example.com]}  # two ml.p5.48xlarge",
        good="budget: {monthly_usd: 100000, emails: [ml@example.com]}",
    ),
)
def budget_too_small(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare the budget with the price of the hours in which the nodes run."""
    environment = context.environment
    expected = usd_per_month(environment, context.facts)
    if environment.budget is None or expected is None or expected <= environment.budget.monthly_usd:
        return
    hours, saving = "", "add a schedule"
    if environment.schedule:
        hours, saving = ", without the hours of the schedule", "let them go earlier"
    yield Hit(
        path=("budget", "monthly_usd"),
        message=f"the nodes cost about {expected:,.0f} USD a month{hours}",
        got=environment.budget.monthly_usd,
        allowed=f"{expected:.0f} or more",
        fix=f"raise it, take fewer nodes, or {saving}",
        owner="environment",
    )


@environment_rule(
    "CST004",
    Severity.WARNING,
    Doc(
        title="Maintenance window beside an hour of the schedule",
        symptom="Nodes stay on for hours at night, or are not there in the morning.",
        cause=(
            "A cluster that is being updated refuses to be scaled. The schedule tries for "
            f"{RETRY_HOURS} hours, and gives up."
        ),
        fix=(
            f"Let the window open {RETRY_HOURS} hours or more before each of the schedule's hours, or "
            f"{SCALING_HOURS} hour after it."
        ),
        source="docs/cost.md",
        bad=f'{_NIGHT}\nhyperpod: {{maintenance: {{schedule: "cron(0 3 ? * SUN *)"}}}}',
        good=f'{_NIGHT}\nhyperpod: {{maintenance: {{schedule: "cron(0 0 ? * SUN *)"}}}}',
    ),
)
def schedule_meets_maintenance(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a maintenance window in which the cluster may be busy when the schedule wants to scale."""
    schedule, maintenance = context.environment.schedule, context.environment.hyperpod.maintenance
    met = overlap(schedule, maintenance) if schedule and maintenance else None
    if met and maintenance:
        window, hour = (f"{moment:%A %H:%M} UTC" for moment in met)
        yield Hit(
            path=("hyperpod", "maintenance", "schedule"),
            message=f"the window of {window} is too close to the schedule's hour of {hour}",
            got=maintenance.schedule,
            allowed=f"{RETRY_HOURS} hours or more before such an hour, or {SCALING_HOURS} after it",
            fix="move one of them",
            owner="environment",
        )


@environment_rule(
    "CST005",
    Severity.WARNING,
    Doc(
        title="Schedule whose failure nobody hears",
        symptom="A night fails, the nodes stay on, and the bill is the first to tell.",
        cause=(
            "The schedule's alarms go to the addresses of `budget.emails`, and to `budget.sns_topic_arn` "
            "where it lies in the environment's region, since CloudWatch reaches no other."
        ),
        fix="Add a budget with an address, or with a topic of the region.",
        source="docs/cost.md",
        bad=f"{_NIGHT}  # and no budget",
        good=f"{_NIGHT}\nbudget: {{monthly_usd: 20000, emails: [ml@example.com]}}",
    ),
)
def schedule_unheard(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a schedule whose alarms have nobody to tell."""
    environment, budget = context.environment, context.environment.budget
    heard = budget and (budget.emails or budget.alarm_topic_arn(environment.region))
    if environment.schedule and not heard:
        yield _hit(
            ("schedule",),
            "nobody hears when nodes stay on or do not come back",
            f"add budget.emails, or a budget.sns_topic_arn in {environment.region}",
        )


def _hit(path: tuple[str, ...], message: str, fix: str) -> Hit:
    return Hit(path=path, message=message, fix=fix, owner="environment")
