import random
import string
import tracemalloc
from collections import Counter

import pytest

from dpd.router.prompt import Prompt
from dpd.router.strategies.prefixaware import PrefixAware

MIB = 2**20


def text(seed, characters):
    return "".join(random.Random(seed).choices(string.ascii_lowercase, k=characters))


def send(strategy, prompt, workers):
    worker = strategy.choose(prompt, workers)
    strategy.remember(prompt, worker)
    return worker.name


@pytest.fixture
def workers(new_worker):
    return [new_worker(f"p{number}:1") for number in range(4)]


def test_a_conversation_stays_where_its_turns_are_while_others_idle(workers):
    strategy = PrefixAware(MIB)
    talk, homes = text("system", 20_000), set()
    for turn in range(40):
        talk += text(turn, 1500)
        homes.add(send(strategy, Prompt(talk), workers))
    assert len(homes) == 1


def test_cold_prompts_spread_evenly(workers):
    strategy = PrefixAware(MIB)
    counts = Counter(send(strategy, Prompt(text(number, 20_000)), workers) for number in range(40))
    assert set(counts.values()) == {10}


def test_a_longer_match_wins(workers):
    strategy = PrefixAware(MIB)
    half, whole = text("a", 30_000), text("a", 30_000) + text("b", 30_000)
    first, second = workers[:2]
    strategy.remember(Prompt(half), first)
    strategy.remember(Prompt(whole), second)
    assert strategy.choose(Prompt(whole + "!"), workers) is second


def test_only_a_shared_beginning_is_a_match(workers):
    strategy = PrefixAware(MIB)
    common = text("a", 51_200)
    strategy.remember(Prompt(common), workers[1])
    # Equal costs: the name decides.
    assert strategy.choose(Prompt("x" * 512 + common), workers) is workers[0]


def test_a_shared_system_prompt_spreads_over_all(workers):
    strategy = PrefixAware(MIB)
    system = text("system", 40_000)
    counts = Counter(send(strategy, Prompt(system + text(number, 4000)), workers) for number in range(200))
    assert len(counts) == 4
    assert max(counts.values()) <= 1.5 * min(counts.values())


def test_the_same_prompt_again_and_again_spreads_too(workers):
    strategy = PrefixAware(MIB)
    prompt = Prompt(text("same", 20_000))
    counts = Counter(send(strategy, prompt, workers) for _ in range(400))
    assert len(counts) == 4
    assert max(counts.values()) <= 1.5 * min(counts.values())


def test_a_busy_worker_is_passed_over_despite_its_match(workers):
    strategy = PrefixAware(MIB)
    prompt = Prompt(text("a", 20_000))
    strategy.remember(prompt, workers[0])
    workers[0].running = 50
    assert strategy.choose(prompt, workers) is not workers[0]


def test_a_restarted_worker_matches_nothing(workers):
    strategy = PrefixAware(MIB)
    prompt = Prompt(text("a", 20_000))
    strategy.remember(prompt, workers[1])
    strategy.forget(workers[1])
    assert strategy.choose(prompt, workers) is workers[0]


def test_a_worker_that_left_is_not_remembered(workers):
    strategy = PrefixAware(MIB)
    prompt = Prompt(text("a", 20_000))
    workers[1].gone = True
    strategy.remember(prompt, workers[1])
    assert strategy.choose(prompt, workers) is workers[0]


def test_the_least_recently_used_prompt_ages_out(workers):
    strategy = PrefixAware(2**16)  # 227 blocks: five prompts of 40
    old, used, end = (Prompt(text(name, 20_480)) for name in ("old", "used", "end"))
    strategy.remember(old, workers[1])
    strategy.remember(used, workers[1])
    for number in range(5):
        strategy.remember(Prompt(text(number, 20_480)), workers[2])
        strategy.remember(used, workers[1])
    strategy.remember(end, workers[3])
    assert strategy.choose(used, workers) is workers[1]
    assert strategy.choose(old, workers) is not workers[1]


def test_the_beginning_of_a_prompt_ages_out_last(workers):
    strategy = PrefixAware(2**16)
    prompt = Prompt(text("a", 300 * 512))
    strategy.remember(prompt, workers[1])
    assert strategy.choose(prompt, workers) is workers[1]


@pytest.mark.parametrize("max_bytes", [2**16, 2**20, 6 * 2**20])
def test_memory_stays_under_its_bound_over_many_prompts(max_bytes, workers):
    strategy = PrefixAware(max_bytes)
    draw = random.Random(7)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(3 * max_bytes // 288 // 40):
            strategy.remember(Prompt(f"{draw.getrandbits(64)}" * 1050), draw.choice(workers))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max_bytes // 4 < after - before < max_bytes
