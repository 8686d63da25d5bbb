import asyncio
from collections import Counter

import pytest

from dpd.router.config import RouterConfig
from dpd.router.prompt import Prompt
from dpd.router.strategies import build_strategy
from dpd.router.strategies.balance import Balance
from dpd.router.strategies.roundrobin import RoundRobin
from dpd.router.strategies.session import SessionAffinity

COLD = Prompt("")


@pytest.mark.parametrize("name", ["roundrobin", "session", "prefixaware", "kvaware"])
def test_each_name_builds_a_strategy_that_chooses_and_closes(name, new_worker, fake_engine):
    config = RouterConfig.model_validate(
        {"workers": {"decode": ["http://d:1"], "kv_events_port": 5557}, "routing": {"strategy": name}}
    )

    async def run():
        async with fake_engine() as engine:
            strategy = build_strategy(config)
            worker = new_worker(kv_events=engine.address)
            chosen = strategy.choose(COLD, [worker])
            strategy.remember(COLD, chosen)
            strategy.forget(chosen)
            await strategy.close()
            return chosen is worker

    assert asyncio.run(run())


def test_workers_take_turns(new_worker):
    strategy = RoundRobin()
    workers = [new_worker(name) for name in ("b:1", "c:1", "a:1")]
    assert [strategy.choose(COLD, workers).name for _ in range(4)] == ["a:1", "b:1", "c:1", "a:1"]


def test_a_full_worker_misses_its_turn_alone(new_worker):
    strategy = RoundRobin()
    a, b, c = (new_worker(name) for name in ("a:1", "b:1", "c:1"))
    assert strategy.choose(COLD, [a, b, c]) is a
    assert strategy.choose(COLD, [a, c]) is c
    assert strategy.choose(COLD, [a, b, c]) is a
    assert strategy.choose(COLD, [a, b, c]) is b


def homes(workers, sessions=2000):
    strategy = SessionAffinity()
    return [strategy.choose(Prompt("", f"s{number}"), workers).name for number in range(sessions)]


def test_a_session_stays_in_any_order_of_candidates(new_worker):
    workers = [new_worker(f"p{number}:1") for number in range(5)]
    assert homes(workers) == homes(workers[::-1])


def test_sessions_spread_evenly(new_worker):
    counts = Counter(homes([new_worker(f"p{number}:1") for number in range(4)]))
    assert len(counts) == 4
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_a_worker_that_leaves_moves_its_own_sessions_alone(new_worker):
    workers = [new_worker(f"p{number}:1") for number in range(5)]
    before, after = homes(workers), homes(workers[:-1])
    moved = {old for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {"p4:1"}


def test_a_worker_that_comes_takes_its_share_and_moves_nothing_else(new_worker):
    workers = [new_worker(f"p{number}:1") for number in range(5)]
    pairs = list(zip(homes(workers[:-1]), homes(workers), strict=True))
    moved = [new for old, new in pairs if old != new]
    assert set(moved) == {"p4:1"}
    assert 0.15 < len(moved) / len(pairs) < 0.25


def test_without_a_session_the_least_loaded_is_taken(new_worker):
    workers = [new_worker("a:1", running=3), new_worker("b:1", running=1)]
    assert SessionAffinity().choose(COLD, workers).name == "b:1"


def test_work_goes_to_whoever_was_given_least(new_worker):
    balance = Balance()
    a, b = new_worker("a:1"), new_worker("b:1")
    assert balance.choose({a: 9000, b: 9000}) is a
    assert [balance.choose({a: 1000, b: 1000}).name for _ in range(7)] == ["b:1"] * 7


def test_a_running_request_is_work_to_wait_for(new_worker):
    a, b = new_worker("a:1", running=4), new_worker("b:1")
    assert Balance().choose({a: 100, b: 1000}) is b


def test_a_match_draws_until_the_others_are_behind_by_four_times_its_worth(new_worker):
    balance = Balance()
    a, b = new_worker("a:1"), new_worker("b:1")
    # Each request gives `a` 1000 + 256 tokens; `b` would have to compute 5000 more.
    chosen = [balance.choose({a: 1000, b: 6000}).name for _ in range(17)]
    assert chosen == ["a:1"] * 16 + ["b:1"]


def test_a_newcomer_is_not_flooded(new_worker):
    balance = Balance()
    a, b, newcomer = (new_worker(name) for name in ("a:1", "b:1", "c:1"))
    for _ in range(100):
        balance.choose({a: 5000, b: 5000})
    counts = Counter(balance.choose({a: 5000, b: 5000, newcomer: 5000}).name for _ in range(30))
    assert set(counts.values()) == {10}


def test_a_forgotten_worker_starts_level(new_worker):
    balance = Balance()
    a, b = new_worker("a:1"), new_worker("b:1")
    balance.choose({a: 9000, b: 9000})
    balance.forget(a)
    assert balance.choose({b: 1000}) is b
    assert balance.choose({a: 5000, b: 5000}) is a


def test_a_worker_that_was_away_does_not_catch_up(new_worker):
    balance = Balance()
    a, b = new_worker("a:1"), new_worker("b:1")
    balance.choose({a: 5000, b: 5000})
    for _ in range(100):
        balance.choose({a: 5000})
    counts = Counter(balance.choose({a: 5000, b: 5000}).name for _ in range(10))
    assert set(counts.values()) == {5}
