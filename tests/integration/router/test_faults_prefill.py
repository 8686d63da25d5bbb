"""What a client gets when prefillers fail: the right answer, from another one or from a decoder."""

from __future__ import annotations

import asyncio

import pytest

SHORT_TIMEOUT = {"prefill_timeout_s": 1}
FAILING = [
    ("refuse_connections", {}),
    ("hang", {}),
    ("slow_prefill", {"delay_s": 5}),
    ("error_status", {"status": 500}),
    ("error_status", {"status": 599}),
    ("die_mid_prefill", {}),
]


@pytest.mark.parametrize(("kind", "more"), FAILING)
def test_another_prefiller_takes_over(simulate, fault, transport, kind, more):
    async def scenario(lab):
        system = await lab.system(
            transport, prefillers=2, limits=SHORT_TIMEOUT, lmcache={"notify_timeout_s": 1}
        )
        fault(system.prefillers[0], kind, **more)
        # In turn: one of two requests comes to the broken one first.
        for _ in range(2):
            reply = await system.answers()
            assert reply.path == ("disaggregated", "long_prompt")
            assert reply.headers["x-dpd-prefiller"] == system.seen(system.prefillers[1]).name

    simulate(scenario)


@pytest.mark.parametrize(("kind", "more"), FAILING)
@pytest.mark.parametrize("stream", [False, True])
def test_a_decoder_prefills_when_all_prefillers_fail(simulate, fault, transport, kind, more, stream):
    async def scenario(lab):
        system = await lab.system(transport, limits=SHORT_TIMEOUT, lmcache={"notify_timeout_s": 1})
        fault(system.prefillers[0], kind, **more)
        reply = await system.answers(stream=stream)
        assert reply.path[0] == "fallback"
        assert reply.path[1] in {"prefill_failed", "no_prefiller"}
        system.prefillers[0].faults.clear()
        await system.settled()

    simulate(scenario)


def test_no_prefiller_is_up(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, prefillers=2)
        for prefiller in system.prefillers:
            await prefiller.stop()
        await lab.until(lambda: not system.router.services.prefill.usable())
        assert (await system.answers()).path == ("fallback", "no_prefiller")

    simulate(scenario)


def test_a_prefiller_that_hangs_and_is_found_out_ends_the_wait(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport, lmcache={"notify_timeout_s": 1})
        fault(system.prefillers[0], "hang", requests=1)
        asked = asyncio.create_task(system.answers())
        await lab.until(lambda: not system.prefillers[0].faults.all())
        fault(system.prefillers[0], "refuse_connections")
        assert (await asked).path == ("fallback", "prefill_failed")
        assert system.metric(
            "worker_failures_total",
            role="prefill",
            worker=system.seen(system.prefillers[0]).name,
            kind="lost",
        )

    simulate(scenario)


def test_a_prefiller_without_a_connector(simulate):
    async def scenario(lab):
        system = await lab.system(prefill={"role": "worker"})
        assert (await system.answers()).path == ("fallback", "no_kv")

    simulate(scenario)


def test_a_prefiller_that_answers_no_json(simulate, fault):
    async def scenario(lab):
        system = await lab.system(prefill={"kv_hold_timeout_s": 0.5})
        fault(system.prefillers[0], "malformed_json")
        assert (await system.answers()).path == ("fallback", "prefill_failed")
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prefiller_that_names_an_engine_that_is_gone(simulate, fault, stream):
    async def scenario(lab):
        system = await lab.system(decoders=2, prefill={"kv_hold_timeout_s": 1})
        fault(system.prefillers[0], "wrong_engine_id", requests=1)
        assert (await system.answers(stream=stream)).path == ("fallback", "decode_failed")
        assert (await system.answers(stream=stream)).path == ("disaggregated", "long_prompt")
        await system.settled()

    simulate(scenario)


def test_a_prefiller_restarts(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport)
        await system.answers()
        prefiller = system.prefillers[0]
        await prefiller.stop()
        await prefiller.start()
        await lab.until(lambda: system.seen(prefiller).healthy)
        await system.answers()
        await lab.until(lambda: system.seen(prefiller).healthy)
        assert (await system.answers()).path == ("disaggregated", "long_prompt")
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prefiller_restarts_before_its_blocks_are_pulled(simulate, fault, stream):
    async def scenario(lab):
        system = await lab.system(limits={"decode_concurrency": 1})
        decoder = system.seen(system.decoders[0])
        fault(system.decoders[0], "hang", requests=1)
        blocking = asyncio.create_task(system.ask("hi"))
        await lab.until(lambda: decoder.running == 1)
        asked = asyncio.create_task(system.answers(stream=stream))
        await lab.until(lambda: system.prefillers[0].load.held_requests == 1)
        await system.prefillers[0].stop()
        await system.prefillers[0].start()
        blocking.cancel()
        assert (await asked).path == ("fallback", "decode_failed")
        await system.settled()

    simulate(scenario)


def test_failures_in_a_row_eject_and_a_trial_brings_back(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(
            transport, workers={"failures_to_eject": 2}, lmcache={"notify_timeout_s": 0.1}
        )
        prefiller = system.seen(system.prefillers[0])
        fault(system.prefillers[0], "error_status")
        for _ in range(2):
            assert (await system.answers()).path == ("fallback", "prefill_failed")
        assert prefiller.breaker.open
        assert (await system.answers()).path == ("fallback", "no_prefiller")
        system.prefillers[0].faults.clear()
        await lab.until(prefiller.breaker.allows)
        assert (await system.answers()).path == ("disaggregated", "long_prompt")
        assert not prefiller.breaker.open

    simulate(scenario)
