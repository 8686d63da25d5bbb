"""What every strategy keeps to, whatever comes."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpd.router.breaker import Breaker
from dpd.router.config import RouterConfig
from dpd.router.prompt import Prompt
from dpd.router.strategies import build_strategy
from dpd.router.strategies.prefixaware import PrefixAware
from dpd.router.worker import Endpoint, Role, Worker

NAMES = ["roundrobin", "session", "prefixaware", "kvaware"]


def fleet(size):
    # Nobody listens there: an engine without events is one whose cache is empty.
    endpoints = [Endpoint(f"http://p{number}:1", kv_events="tcp://127.0.0.1:9") for number in range(size)]
    return [Worker(Role.PREFILL, endpoint, Breaker(1, 1.0)) for endpoint in endpoints]


PROMPTS = st.builds(
    Prompt,
    text=st.tuples(st.sampled_from("ab"), st.integers(0, 4000), st.text(max_size=600)).map(
        lambda parts: parts[0] * parts[1] + parts[2]
    ),
    session=st.sampled_from(["", "a", "b", "ü\ud800"]),
    token_ids=st.none() | st.lists(st.integers(0, 2**18), max_size=64),
)
STEPS = st.lists(
    st.tuples(PROMPTS, st.sets(st.integers(0, 4), min_size=1), st.integers(0, 9), st.booleans()), max_size=20
)


@pytest.mark.parametrize("name", NAMES)
@given(steps=STEPS)
@settings(max_examples=30, deadline=None)
def test_a_candidate_is_chosen_whatever_happened_before(name, steps):
    config = RouterConfig.model_validate(
        {
            "workers": {"decode": ["http://d:1"], "kv_events_port": 9},
            "routing": {"strategy": name, "prefix_index_bytes": 2**16},
        }
    )

    async def run():
        strategy, workers = build_strategy(config), fleet(5)
        try:
            for prompt, indices, running, restarts in steps:
                candidates = [workers[index] for index in indices]
                chosen = strategy.choose(prompt, candidates)
                assert chosen in candidates
                chosen.running = running
                strategy.remember(prompt, chosen)
                if restarts:
                    strategy.forget(chosen)
        finally:
            await strategy.close()

    asyncio.run(run())


@given(
    st.integers(2, 6),
    st.integers(0, 40_000),
    st.lists(st.integers(2000, 20_000), min_size=150, max_size=150),
)
@settings(max_examples=25, deadline=None)
def test_no_prefiller_starves_whatever_the_share_of_the_system_prompt(size, system, lengths):
    strategy, workers = PrefixAware(2**20), fleet(size)
    work_tokens = Counter(dict.fromkeys(workers, 0))
    for number, length in enumerate(lengths):
        prompt = Prompt("s" * system + f"{number:08}" * (length // 8))
        chosen = strategy.choose(prompt, workers)
        strategy.remember(prompt, chosen)
        work_tokens[chosen] += length // 4 + 256
    # A worker is ahead by four times what makes others wait for a prompt with the system prompt, and by one.
    assert max(work_tokens.values()) - min(work_tokens.values()) <= 5 * (system + max(lengths)) // 4 + 256
    assert min(work_tokens.values()) > 0
