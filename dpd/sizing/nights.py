"""When a schedule takes the GPU nodes away, what that saves, and what it meets."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpd.facts import Facts
from dpd.sizing.capacity import scheduled_groups
from dpd.sizing.cost import cost
from dpd.spec.cost_control import RETRY_HOURS, Schedule
from dpd.spec.cron import Cron
from dpd.spec.environment import Environment
from dpd.spec.instance_group import Maintenance

SCALING_HOURS: Final = 1
"""How long a cluster is taken to be busy with nodes that come; ours, as the wait for nodes has it."""
_YEAR: Final = 2027
"""The year that is looked at; any has every weekday in every month and both changes of the clock."""


def usd_per_month(environment: Environment, facts: Facts) -> float | None:
    """Return what an average month costs, without the hours that the schedule takes nodes away.

    None on a machine that does not know the schedule's time zone.
    """
    whole = cost(environment, facts).usd_per_month
    if environment.schedule is None:
        return whole
    share = share_away(environment.schedule)
    if share is None:
        return None
    return whole - share * (whole - cost(_at_night(environment), facts).usd_per_month)


def share_away(schedule: Schedule) -> float | None:
    """Return the share of a year that lies between `down` and `up`; None as in ``usd_per_month``."""
    zone = _zone(schedule)
    if zone is None:
        return None
    ups = [(moment, True) for moment in Cron.parse(schedule.up).moments(_YEAR, zone)]
    downs = [(moment, False) for moment in Cron.parse(schedule.down).moments(_YEAR, zone)]
    wishes = sorted(ups + downs)
    if not downs:
        return 0.0
    year = datetime(_YEAR + 1, 1, 1, tzinfo=UTC) - datetime(_YEAR, 1, 1, tzinfo=UTC)
    # The year goes round: what was wished last holds until the first wish of the next one.
    following = pairwise([*wishes, (wishes[0][0] + year, wishes[0][1])])
    away = sum((later - moment for (moment, up), (later, _) in following if not up), timedelta())
    return away / year


def overlap(schedule: Schedule, maintenance: Maintenance) -> tuple[datetime, datetime] | None:
    """Return a window and an hour of the schedule that are too close, in UTC; None where there are none.

    The window must open RETRY_HOURS or more before the hour, for that is how long the schedule tries, or
    SCALING_HOURS or more after it, when nodes have come or gone.
    """
    zone = _zone(schedule)
    if zone is None:
        return None
    hours = sorted(
        moment
        for expression in (schedule.down, schedule.up)
        for moment in Cron.parse(expression).moments(_YEAR, zone)
    )
    for window in Cron.parse(maintenance.schedule).moments(_YEAR, UTC):
        position = bisect_right(hours, window - timedelta(hours=SCALING_HOURS))
        if position < len(hours) and hours[position] < window + timedelta(hours=RETRY_HOURS):
            return window, hours[position]
    return None


def _zone(schedule: Schedule) -> ZoneInfo | None:
    try:
        return ZoneInfo(schedule.time_zone)
    except ZoneInfoNotFoundError:
        return None


def _at_night(environment: Environment) -> Environment:
    """Return the environment with the counts that the schedule sets at night."""
    hyperpod = environment.hyperpod
    empty = {
        name: group.model_copy(update={"count": 0}) for name, group in scheduled_groups(environment).items()
    }
    groups = hyperpod.groups.model_copy(update=empty)
    return environment.model_copy(update={"hyperpod": hyperpod.model_copy(update={"groups": groups})})
