"""Cron expressions of AWS: which days and moments they name."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest

from dpd.spec.cron import Cron

# 2027 begins on a Friday.
DAYS: dict[str, list[str]] = {
    "1,15 2 ?": ["02-01", "02-15"],
    "*/10 2 ?": ["02-01", "02-11", "02-21"],
    "L FEB ?": ["02-28"],
    "15W MAY ?": ["05-14"],  # Saturday: the Friday before
    "1W MAY ?": ["05-03"],  # Saturday the first: never into April
    "31W JAN ?": ["01-29"],  # Sunday the last: never into February
    "16W MAY ?": ["05-17"],  # Sunday: the Monday after
    "LW OCT ?": ["10-29"],
    "? 2 SUN": ["02-07", "02-14", "02-21", "02-28"],
    "? 2 L": ["02-06", "02-13", "02-20", "02-27"],
    "? 2 6L": ["02-26"],
    "? 2 FRIL": ["02-26"],
    "? 2 3#2": ["02-09"],
    "? 2 SAT-MON": [f"02-{day:02}" for day in (1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28)],
    "? 2,6 2#5": [],
}


@pytest.mark.parametrize(("fields", "days"), DAYS.items(), ids=DAYS.keys())
def test_days(fields: str, days: list[str]) -> None:
    moments = Cron.parse(f"cron(0 3 {fields} *)").moments(2027, UTC)

    assert [f"{moment:%m-%d}" for moment in moments] == days


def test_times_of_a_day() -> None:
    assert Cron.parse("cron(0/30 22-1 * * ? *)").times == tuple(
        time(hour, minute) for hour in (0, 1, 22, 23) for minute in (0, 30)
    )


def test_moments_follow_the_clock_of_their_zone() -> None:
    moments = Cron.parse("cron(0 7 1 1,7 ? *)").moments(2027, ZoneInfo("Europe/Berlin"))

    assert moments == [datetime(2027, 1, 1, 6, tzinfo=UTC), datetime(2027, 7, 1, 5, tzinfo=UTC)]


def test_a_leap_day_counts() -> None:
    assert Cron.parse("cron(0 0 29 2 ? *)").falls_on(date(2028, 2, 29))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("rate(1 day)", "six fields"),
        ("cron(60 0 * * ? *)", "0 to 59"),
        ("cron(0 24 * * ? *)", "0 to 23"),
        ("cron(0 0 32 * ? *)", "1 to 31"),
        ("cron(0 0 * 13 ? *)", "1 to 12"),
        ("cron(0 0 ? * 8 *)", "1 to 7"),
        ("cron(0 0 ? * MON#6 *)", "1 to 5"),
        ("cron(*/0 0 * * ? *)", "1 to 59"),
        ("cron(0 0 ? * ? *)", "1 to 31"),
    ],
)
def test_a_value_out_of_its_range_is_named(expression: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Cron.parse(expression)
