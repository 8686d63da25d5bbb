"""Whatever fails, in whatever order: every client is told the truth, and nothing stays taken."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

EXAMPLES = 15
WORDS = st.integers(0, 9).map(lambda seed: " ".join(f"w{seed}x{number}" for number in range(40)))
REQUESTS = st.fixed_dictionaries(
    {
        "prompt": st.sampled_from(["hello", "good morning"]) | WORDS,
        "stream": st.booleans(),
        "path": st.sampled_from(["/v1/completions", "/v1/chat/completions"]),
        "max_tokens": st.sampled_from([1, 8, 40]),
        "at_s": st.floats(0, 0.6),
        "leaves_after_s": st.none() | st.floats(0, 0.4),
    }
)
DELAYS = st.sampled_from([0.02, 0.2, 0.8])
ANYWHERE = [
    st.fixed_dictionaries({"kind": st.just("refuse_connections"), "delay_s": DELAYS}),
    st.fixed_dictionaries({"kind": st.just("hang"), "requests": st.integers(1, 2)}),
    st.fixed_dictionaries(
        {"kind": st.just("slow_prefill"), "delay_s": DELAYS, "requests": st.integers(1, 2)}
    ),
    st.fixed_dictionaries({"kind": st.just("error_status"), "requests": st.integers(1, 4)}),
    st.fixed_dictionaries({"kind": st.just("die_mid_prefill"), "requests": st.integers(1, 2)}),
    st.fixed_dictionaries({"kind": st.just("restart")}),
]
AT_DECODERS = [
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["die_mid_stream", "stall_mid_stream"]),
            "after_chunks": st.integers(0, 5),
            "requests": st.integers(1, 2),
        }
    ),
]
AT_PREFILLERS = {
    "nixl": [st.fixed_dictionaries({"kind": st.just("wrong_engine_id"), "requests": st.integers(1, 2)})],
    "lmcache": [
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["lose_notification", "late_notification", "early_notification"]),
                "ranks": st.sampled_from([None, (0,), (1,)]),
                "delay_s": DELAYS,
                "requests": st.integers(1, 3),
            }
        )
    ],
}
LIMITS = {
    "prefill_concurrency": 3,
    "decode_concurrency": 4,
    "queue_timeout_s": 3,
    "prefill_timeout_s": 0.5,
    "stream_idle_timeout_s": 0.5,
    "request_timeout_s": 5,
}
WORKERS = {"health_interval_s": 0.05, "health_timeout_s": 2, "ejection_s": 0.1}
# Enough for the prompts of all clients to wait for room now and then.
LMCACHE = {"pages_per_decoder": 60, "usable_share": 1.0, "notify_timeout_s": 1}
SIZES = {"itl_ms": 2, "prefill_tokens_per_s": 20_000, "kv_hold_timeout_s": 1, "max_model_len": 4096}
ERRORS = {
    "decode_broken",
    "decode_refused",
    "decode_timeout",
    "decode_lost",
    "decode_status",
    "queue_timeout",
    "no_decode_worker",
    "request_timeout",
}


def faults(transport):
    """Return a strategy for one fault: when, at which worker, and what."""
    prefiller = st.tuples(
        st.floats(0, 0.6), st.sampled_from(["p0", "p1"]), st.one_of(ANYWHERE + AT_PREFILLERS[transport])
    )
    decoder = st.tuples(st.floats(0, 0.6), st.sampled_from(["d0", "d1"]), st.one_of(ANYWHERE + AT_DECODERS))
    return st.lists(prefiller | decoder, max_size=6)


async def break_things(system, fault, plan):
    """Set each fault at its time."""
    named = {f"p{n}": one for n, one in enumerate(system.prefillers)}
    named |= {f"d{n}": one for n, one in enumerate(system.decoders)}
    restarting = asyncio.Lock()

    async def one(at_s, where, what):
        await asyncio.sleep(at_s)
        worker = named[where]
        if what["kind"] == "restart":
            async with restarting:
                await worker.stop()
                await worker.start()
        else:
            fault(worker, **what)

    await asyncio.gather(*(one(*step) for step in plan))


async def be_client(system, *, at_s, leaves_after_s, prompt, **fields):
    """Ask, and judge the answer; perhaps leave before it is whole."""
    right = await system.right(prompt, **fields)
    await asyncio.sleep(at_s)
    try:
        async with asyncio.timeout(leaves_after_s):
            reply = await system.ask(prompt, **fields)
    except TimeoutError:
        assert leaves_after_s is not None
        return
    if reply.error:
        assert reply.error["code"] in ERRORS, reply
        assert not reply.done
        assert right.startswith(reply.text), reply
        assert (reply.status == 200) == bool(reply.text), reply
    else:
        assert (reply.status, reply.done) == (200, True), reply
        assert reply.text == right, reply


async def restart_who_stands_still(system, plan):
    """End the wait of a prefiller for a decoder that restarted meanwhile, which vLLM ends after 300 s."""
    if any(where.startswith("d") and what["kind"] == "restart" for _, where, what in plan):
        for prefiller in system.prefillers:
            if prefiller.load.running:
                await prefiller.stop()
                await prefiller.start()


@pytest.mark.parametrize("transport", ["nixl", "lmcache"])
def test_any_mix_of_faults(simulate, fault, transport):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.reuse, Phase.generate],  # an example takes seconds: a smaller one takes longer to find
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(REQUESTS, min_size=1, max_size=12), faults(transport))
    def holds(requests, plan):
        async def scenario(lab):
            system = await lab.system(
                transport,
                prefillers=2,
                decoders=2,
                prefill=SIZES,
                decode=SIZES | {"pd_pages": 120},
                limits=LIMITS,
                workers=WORKERS,
                lmcache=LMCACHE,
            )
            await asyncio.gather(
                break_things(system, fault, plan), *(be_client(system, **one) for one in requests)
            )
            for worker in (*system.prefillers, *system.decoders):
                worker.faults.clear()
            await lab.until(lambda: not system.router.server.exchanges)
            await restart_who_stands_still(system, plan)
            await system.settled()
            for one in system.workers:
                await lab.until(lambda one=one: one.healthy)
            await system.answers()
            await system.settled()

        simulate(scenario)

    holds()
