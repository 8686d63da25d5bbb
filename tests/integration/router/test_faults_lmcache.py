"""What LMCache's protocol adds: notifications, pages that only a decode leg frees, a buffer that fills up."""

from __future__ import annotations

import asyncio

import pytest

DISAGGREGATED = ("disaggregated", "long_prompt")
PAGES = 8
"""Of the prompt of 60 words, as the router reserves them: a byte in three is a token at most."""


def prompts(count):
    """Return prompts that share no page."""
    return [" ".join(f"w{number}x{n}" for n in range(60)) for number in range(count)]


@pytest.mark.parametrize("ranks", [None, (1,)])
def test_a_lost_notification(simulate, fault, ranks):
    async def scenario(lab):
        system = await lab.system("lmcache", lmcache={"notify_timeout_s": 0.5})
        fault(system.prefillers[0], "lose_notification", ranks=ranks, requests=2)
        assert (await system.answers()).path == ("fallback", "prefill_failed")
        await system.settled()
        assert system.metric("releases_total", outcome="released") == 1
        name = system.seen(system.prefillers[0]).name
        assert system.metric("worker_failures_total", role="prefill", worker=name, kind="no_notification")

    simulate(scenario)


def test_decoding_waits_for_a_late_notification(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache")
        fault(system.prefillers[0], "late_notification", delay_s=0.3, ranks=(1,))
        assert (await system.answers()).path == DISAGGREGATED
        await system.settled()

    simulate(scenario)


def test_pages_that_are_reported_too_late_are_freed_once_they_are_written(simulate, fault):
    async def scenario(lab):
        system = await lab.system(
            "lmcache", lmcache={"notify_timeout_s": 2}, limits={"prefill_timeout_s": 0.5}
        )
        fault(system.prefillers[0], "slow_prefill", delay_s=1.5, requests=1)
        assert (await system.answers()).path == ("fallback", "prefill_failed")
        assert system.seen(system.decoders[0]).pages
        await system.settled()
        assert system.metric("releases_total", outcome="released") == 1

    simulate(scenario)


def test_an_early_notification_does_not_start_the_decode(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", prefill={"transfer_ms": 20})
        fault(system.prefillers[0], "early_notification", delay_s=0.2)
        assert (await system.answers()).path == DISAGGREGATED
        await system.settled()

    simulate(scenario)


def test_a_notification_for_nobody_is_ignored(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", lmcache={"notify_timeout_s": 0.2})
        fault(system.prefillers[0], "late_notification", delay_s=0.6, requests=1)
        await system.answers()
        await system.settled()
        await asyncio.sleep(0.6)
        assert (await system.answers()).path == DISAGGREGATED

    simulate(scenario)


def test_prompts_wait_for_pages_and_never_in_front_of_those_that_have_some(simulate):
    async def scenario(lab):
        usable = {"pages_per_decoder": 40, "usable_share": 1.0}
        system = await lab.system("lmcache", lmcache=usable, decode={"pd_pages": 40})
        replies = await asyncio.gather(*(system.answers(prompt) for prompt in prompts(12)))
        assert {reply.path for reply in replies} == {DISAGGREGATED}
        await system.settled()

    simulate(scenario)


def test_no_room_in_the_buffer_within_the_queue_timeout(simulate, fault):
    async def scenario(lab):
        system = await lab.system(
            "lmcache",
            lmcache={"pages_per_decoder": 40, "usable_share": 1.0},
            limits={"queue_timeout_s": 0.5},
        )
        system.seen(system.decoders[0]).pages = 39
        assert (await system.answers()).path == ("fallback", "pd_buffer_full")
        system.seen(system.decoders[0]).pages -= 39
        await system.settled()

    simulate(scenario)


def test_a_prompt_larger_than_the_buffer(simulate):
    async def scenario(lab):
        system = await lab.system("lmcache", lmcache={"pages_per_decoder": 4})
        assert (await system.answers()).path == ("fallback", "exceeds_pd_buffer")
        await system.settled()

    simulate(scenario)


def test_a_decoder_whose_buffer_is_full_although_pages_were_counted(simulate, fault):
    async def scenario(lab):
        system = await lab.system(
            "lmcache", lmcache={"notify_timeout_s": 5}, limits={"prefill_timeout_s": 0.5}
        )
        fault(system.decoders[0], "full_buffer")
        assert (await system.answers()).path == ("fallback", "prefill_failed")
        system.decoders[0].faults.clear()
        await system.settled()
        assert (await system.answers()).path == DISAGGREGATED

    simulate(scenario)


@pytest.mark.parametrize("isolated", [True, False])
def test_shared_prefixes_at_two_prefillers(simulate, isolated):
    async def scenario(lab):
        system = await lab.system("lmcache", prefillers=2, lmcache={"isolate_requests": isolated})
        shared = prompts(1)[0]
        rounds = [shared + f" and {number}" for number in range(4 if isolated else 1)]
        await asyncio.gather(*(system.answers(prompt) for prompt in rounds))
        await system.settled()

    simulate(scenario)


def test_a_further_attempt_never_reads_what_the_first_left(simulate, fault):
    async def scenario(lab):
        system = await lab.system(
            "lmcache", prefillers=2, lmcache={"isolate_requests": False, "notify_timeout_s": 0.5}
        )
        for prefiller in system.prefillers:
            fault(prefiller, "die_mid_prefill", requests=1)
        assert (await system.answers()).path == ("fallback", "prefill_failed")
        await system.settled()
        assert (await system.answers()).path == DISAGGREGATED

    simulate(scenario)


def test_a_prefiller_never_sees_a_plain_request(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", prefillers=2)
        await asyncio.gather(*(system.answers("hello") for _ in range(5)), system.answers())
        assert (await system.get("/v1/models"))[0] == 200
        assert not any(prefiller.engine.death for prefiller in system.prefillers)
        computed = sum(one.counters.prompt_tokens["local_compute"] for one in system.prefillers)
        assert computed == 60

    simulate(scenario)


def test_a_decoder_that_dies_with_pages_gives_their_room_back(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", decoders=2, lmcache={"notify_timeout_s": 0.5})
        first = min(system.decoders, key=lambda one: system.seen(one).name)
        fault(first, "die_mid_prefill", whole_worker=True, requests=1)
        assert (await system.answers()).path == ("fallback", "decode_failed")
        await first.ended.wait()
        await first.start()
        await system.settled()

    simulate(scenario)


def test_a_drain_waits_for_pages_that_nobody_reads(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", limits={"drain_timeout_s": 20})
        fault(system.prefillers[0], "slow_prefill", delay_s=0.3, requests=1)
        asked = asyncio.create_task(system.ask())
        await lab.until(lambda: system.prefillers[0].load.running == 1)
        asked.cancel()
        await system.router.drain()
        assert not system.held()
        assert system.metric("releases_total", outcome="released") == 1

    simulate(scenario)


def test_the_end_of_a_drain_tells_clients_at_once_and_frees_pages_after_it(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", limits={"drain_timeout_s": 0.1})
        fault(system.prefillers[0], "slow_prefill", delay_s=0.5, requests=1)
        asked = asyncio.create_task(system.ask())
        await lab.until(lambda: system.prefillers[0].load.running == 1)
        await system.router.drain()
        reply = await asked
        assert (reply.status, reply.error["code"]) == (503, "draining")
        await system.settled()
        assert system.metric("releases_total", outcome="released") == 1

    simulate(scenario)
