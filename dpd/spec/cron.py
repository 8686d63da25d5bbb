"""Cron expressions of AWS: six fields, `cron(minute hour day-of-month month day-of-week year)`."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"), 1
    )
}
_WEEKDAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}
_NO_NAMES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Cron:
    """Hold the times and the days on which an expression holds; its years are left out.

    A schedule is judged as it is while it is in force. Syntax: EventBridge Scheduler user guide, page
    schedule-types.
    """

    times: tuple[time, ...]
    months: frozenset[int]
    day_of_month: str
    day_of_week: str

    @classmethod
    def parse(cls, expression: str) -> Cron:
        """Read an expression; raises ValueError with the part that is out of its range."""
        fields = re.fullmatch(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)", expression)
        if fields is None:
            raise ValueError(f"wants six fields in cron(...), got {expression!r}")
        minute, hour, day_of_month, month, day_of_week, _ = fields.groups()
        hours, minutes = sorted(_numbers(hour, 0, 23)), sorted(_numbers(minute, 0, 59))
        times = tuple(time(at_hour, at_minute) for at_hour in hours for at_minute in minutes)
        cron = cls(times, _numbers(month, 1, 12, _MONTHS), day_of_month, day_of_week)
        # The day is read for a month at a time: any will tell a field that cannot be read.
        cron.falls_on(date(2000, 1, 1))
        return cron

    def falls_on(self, day: date) -> bool:
        """Tell whether the expression holds on a day."""
        if self.day_of_week == "?":
            in_month = _in_month(self.day_of_month, day)
        else:
            in_month = _in_week(self.day_of_week, day)
        return in_month and day.month in self.months

    def moments(self, year: int, zone: tzinfo) -> list[datetime]:
        """Return every moment of a year at which it holds, in UTC and in order."""
        days = (
            date(year, 1, 1) + timedelta(number) for number in range(366 if calendar.isleap(year) else 365)
        )
        local = (datetime.combine(day, at, zone) for day in days if self.falls_on(day) for at in self.times)
        return sorted(moment.astimezone(UTC) for moment in local)


def readable(expression: str) -> str:
    """Return an expression as it is; raises ValueError where it cannot be read."""
    Cron.parse(expression)
    return expression


def _numbers(field: str, low: int, high: int, names: Mapping[str, int] = _NO_NAMES) -> frozenset[int]:
    """Return the numbers that a field names: `*`, `3`, `1-5`, `22-2`, `*/15`, `5/10`, and lists of them."""
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            start, end = low, high
        else:
            start = _number(first, low, high, names)
            end = _number(last, low, high, names) if dash else high if slash else start
        rising = range(start, end + 1) if start <= end else (*range(start, high + 1), *range(low, end + 1))
        found.update(rising[:: _number(step, 1, high, _NO_NAMES) if slash else 1])
    return frozenset(found)


def _number(text: str, low: int, high: int, names: Mapping[str, int]) -> int:
    number = names.get(text, int(text) if text.isdecimal() else -1)
    if not low <= number <= high:
        raise ValueError(f"wants {low} to {high} in this field of cron(...), got {text!r}")
    return number


def _in_month(field: str, day: date) -> bool:
    """Read `L` (the last day), `15W` (the weekday nearest to the 15th), `LW`, or numbers."""
    last = calendar.monthrange(day.year, day.month)[1]
    if not field.endswith("W"):
        return day.day == last if field == "L" else day.day in _numbers(field, 1, 31)
    wanted = last if field == "LW" else min(_number(field[:-1], 1, 31, _NO_NAMES), last)
    shift = {5: 2 if wanted == 1 else -1, 6: -2 if wanted == last else 1}
    return day.day == wanted + shift.get(day.replace(day=wanted).weekday(), 0)


def _in_week(field: str, day: date) -> bool:
    """Read `L` (Saturday), `6L` (the last Friday), `3#2` (the second Tuesday), or numbers and names."""
    weekday = day.isoweekday() % 7 + 1
    last = calendar.monthrange(day.year, day.month)[1]
    if "#" in field:
        name, _, week = field.partition("#")
        wanted = _number(name, 1, 7, _WEEKDAYS), _number(week, 1, 5, _NO_NAMES)
        return (weekday, (day.day - 1) // 7 + 1) == wanted
    if field.endswith("L") and field != "L":
        return weekday == _number(field[:-1], 1, 7, _WEEKDAYS) and day.day > last - 7
    return weekday in ({7} if field == "L" else _numbers(field, 1, 7, _WEEKDAYS))
