"""What a schedule saves."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.sizing import nights
from dpd.sizing.cost import cost
from dpd.sizing.nights import share_away, usd_per_month
from dpd.spec.catalog import Catalog
from dpd.spec.cost_control import Schedule
from dpd.spec.environment import Environment


def schedule(down: str, up: str, **other: Any) -> Schedule:
    return Schedule(down=f"cron({down} *)", up=f"cron({up} *)", **other)


@pytest.mark.parametrize(
    ("down", "up", "share"),
    [
        ("0 20 * * ?", "0 8 * * ?", 12 / 24),
        ("0 20 ? * FRI", "0 20 ? * SUN", 48 / 168),
        ("0 0 1 1 ?", "0 0 31 12 ?", 364 / 365),
        # A second `down` in the same night changes nothing.
        ("0 20,22 * * ?", "0 8 * * ?", 12 / 24),
    ],
)
def test_share_of_the_year_without_nodes(down: str, up: str, share: float) -> None:
    assert share_away(schedule(down, up)) == pytest.approx(share, abs=0.003)


def test_what_was_wished_last_holds_over_the_turn_of_the_year() -> None:
    assert share_away(schedule("0 0 1 12 ?", "0 0 1 2 ?")) == pytest.approx((31 + 31) / 365)


def test_nodes_that_never_go_are_always_there() -> None:
    assert share_away(schedule("0 0 30 2 ?", "0 8 * * ?")) == 0


def test_a_zone_of_no_database_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(key: str) -> object:
        raise nights.ZoneInfoNotFoundError(key)

    monkeypatch.setattr(nights, "ZoneInfo", missing)

    assert share_away(schedule("0 20 * * ?", "0 8 * * ?")) is None


@pytest.fixture
def dev(catalog: Catalog) -> Environment:
    """Return dev with a schedule of twelve hours."""
    base = catalog.environments["dev"].value
    assert isinstance(base, Environment)
    return base.model_copy(update={"schedule": schedule("0 20 * * ?", "0 8 * * ?")})


def test_a_night_saves_the_gpu_nodes_and_nothing_else(dev: Environment, facts: Facts) -> None:
    environment = dev
    lines = cost(environment, facts).lines
    gpus = sum(line.usd_per_hour or 0 for line in lines if line.name in {"prefill nodes", "decode nodes"})
    whole = cost(environment, facts)

    saved = whole.usd_per_month - (usd_per_month(environment, facts) or 0)

    assert saved == pytest.approx(gpus * whole.hours_per_month / 2)
