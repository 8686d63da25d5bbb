"""What the engine does that no single answer shows."""

import asyncio
from itertools import pairwise

import pytest

from dpd.simulator.pd_buffer import PdBuffer
from dpd.simulator.prefix_cache import PrefixCache
from dpd.simulator.scheduler import Scheduler
from dpd.simulator.step_clock import StepClock


def test_a_prompt_that_is_computed_stalls_every_stream(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        stream = asyncio.create_task(lab.text(worker, max_tokens=16_000, ignore_eos=True))
        await lab.until(lambda: worker.load.running == 1)
        fault(worker, "slow_prefill", requests=1, delay_s=3600)
        prompt = asyncio.create_task(lab.text(worker, "another prompt"))
        await lab.until(lambda: worker.load.running == 2)
        done, _ = await asyncio.wait({stream}, timeout=0.3)
        assert not done
        stream.cancel()
        prompt.cancel()

    simulate(scenario)


def test_every_sequence_gets_one_frame_per_step():
    async def main():
        clock = StepClock(0)
        written = []
        frames = [[b"%d" % number] * 3 for number in range(3)]
        await asyncio.gather(*(clock.play(each, written.append) for each in frames))
        return written

    assert asyncio.run(main()) == [b"0", b"1", b"2"] * 3


def test_a_cancelled_sequence_leaves_the_clock():
    async def main():
        clock = StepClock(0)
        written = []
        endless = asyncio.create_task(clock.play([b"x"] * 10**6, written.append))
        await asyncio.sleep(0.01)
        endless.cancel()
        await asyncio.gather(endless, return_exceptions=True)
        count = len(written)
        await asyncio.sleep(0.01)
        return count, len(written)

    before, after = asyncio.run(main())
    assert 0 < before == after < 10**6


def test_nothing_to_play_ends_at_once():
    asyncio.run(StepClock(3600).play([], pytest.fail))


def test_waiters_are_admitted_in_order():
    async def main():
        scheduler = Scheduler(slots=4, blocks=4)
        first = await scheduler.admit(4)
        order = []

        async def admit(name, blocks):
            taken = await scheduler.admit(blocks)
            order.append(name)
            scheduler.leave(taken)

        waiting = [asyncio.create_task(admit(name, blocks)) for name, blocks in (("large", 4), ("small", 1))]
        await asyncio.sleep(0)
        assert scheduler.waiting == 2
        scheduler.leave(first)
        await asyncio.gather(*waiting)
        return order, scheduler.used_blocks, scheduler.running

    assert asyncio.run(main()) == (["large", "small"], 0, 0)


@pytest.mark.parametrize("admitted", [False, True])
def test_a_waiter_that_gives_up_takes_nothing(admitted):
    async def main():
        scheduler = Scheduler(slots=1, blocks=4)
        first = await scheduler.admit(2)
        waiter = asyncio.create_task(scheduler.admit(2))
        await asyncio.sleep(0)
        if admitted:
            scheduler.leave(first)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        if not admitted:
            scheduler.leave(first)
        return scheduler.running, scheduler.waiting, scheduler.used_blocks

    assert asyncio.run(main()) == (0, 0, 0)


def test_a_waiter_that_gives_up_as_its_turn_comes_lets_the_next_one_in():
    async def main():
        scheduler = Scheduler(slots=1, blocks=4)
        first = await scheduler.admit(4)
        early, late = (asyncio.create_task(scheduler.admit(4)) for _ in range(2))
        await asyncio.sleep(0)
        early.cancel()
        scheduler.leave(first)
        scheduler.leave(await late)
        with pytest.raises(asyncio.CancelledError):
            await early
        return scheduler.running, scheduler.waiting, scheduler.used_blocks

    assert asyncio.run(main()) == (0, 0, 0)


def test_the_prefix_cache_forgets_what_was_used_least_recently():
    cache = PrefixCache(blocks=2)
    for prompt in ([b"a"], [b"b"], [b"a"], [b"c"]):
        cache.remember(prompt)
    assert [cache.hits([content]) for content in (b"a", b"b", b"c")] == [1, 0, 1]


def test_a_prefix_ends_at_the_first_unknown_block():
    cache = PrefixCache(blocks=4)
    cache.remember([b"a", b"c"])
    assert cache.hits([b"a", b"b", b"c"]) == 1


def test_a_new_page_is_unwritten():
    buffer = PdBuffer(1)
    index = buffer.allocate("first")
    buffer.write(index, b"content")
    assert buffer.retrieve("first") == b"content"
    buffer.allocate("second")
    assert buffer.retrieve("second") != b"content"


def test_pages_are_given_out_once():
    buffer = PdBuffer(3)
    indexes = [buffer.allocate(name) for name in "abcd"]
    assert indexes[3] is None
    assert all(one != other for one, other in pairwise(indexes))
    assert buffer.used == 3
