import asyncio
import logging
import tracemalloc
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import zmq

from dpd.router.prompt import Prompt
from dpd.router.strategies.kv_events import BlockStored
from dpd.router.strategies.kvaware import KvAware

MIB = 2**20
SIZE = 16
PROMPT = Prompt("", token_ids=list(range(160)))


def stored(first=0, blocks=10):
    """Return an event with blocks of the chain 0, 1, 2 ... from block `first` on."""
    return (
        "BlockStored",
        {
            "block_hashes": [number.to_bytes(32, "big") for number in range(first, first + blocks)],
            "parent_block_hash": (first - 1).to_bytes(32, "big") if first else None,
            "token_ids": list(range(first * SIZE, (first + blocks) * SIZE)),
            "block_size": SIZE,
        },
    )


def removed(number):
    return ("BlockRemoved", {"block_hashes": [number.to_bytes(32, "big")]})


@asynccontextmanager
async def kvaware(*workers, max_bytes=MIB):
    strategy = KvAware(max_bytes)
    try:
        strategy.choose(PROMPT, workers)
        yield strategy
    finally:
        await strategy.close()


def indexed(strategy, worker):
    return len(strategy._followed[worker].blocks)


@pytest.fixture
def follow(fake_engine, new_worker, until):
    """Return a run of one engine, its worker and a strategy that follows it; `steps` gets them all."""

    def run(steps, vllm="0.32", replay=False, max_bytes=MIB, host="127.0.0.1"):
        async def body():
            async with fake_engine(vllm, host=host) as engine:
                address = engine.replay_address if replay else ""
                worker = new_worker("p:1", kv_events=engine.address, kv_events_replay=address)
                async with kvaware(worker, max_bytes=max_bytes) as strategy:
                    await engine.subscribed()

                    async def reaches(blocks):
                        await until(lambda: indexed(strategy, worker) == blocks)

                    await steps(engine, strategy, worker, reaches)

        asyncio.run(body())

    return run


@pytest.mark.parametrize("vllm", ["0.19", "0.32"])
def test_a_prompt_goes_where_its_blocks_are(vllm, fake_engine, new_worker, until):
    async def run():
        async with fake_engine(vllm) as engine, fake_engine(vllm) as other:
            a = new_worker("a:1", kv_events=other.address)
            b = new_worker("b:1", kv_events=engine.address)
            async with kvaware(a, b) as strategy:
                # `a` has had a prompt; with one for `b` they are level, and the name would decide for `a`.
                assert strategy.choose(PROMPT, [a, b]) is b
                await engine.subscribed()
                await engine.publish(stored())
                await until(lambda: indexed(strategy, b) == 10)
                return strategy.choose(PROMPT, [a, b]).name

    assert asyncio.run(run()) == "b:1"


def test_evicted_and_cleared_blocks_leave_the_index(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await reaches(10)
        await engine.publish(removed(4), removed(9))
        await reaches(8)
        await engine.publish(("AllBlocksCleared", {}))
        await reaches(0)

    follow(steps)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_events_and_replays_come_over_ipv6(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored(), lost=True)
        await engine.publish(removed(0))
        await reaches(9)

    follow(steps, replay=True, host="[::1]")


def test_a_lost_batch_drops_the_index(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await reaches(10)
        await engine.publish(removed(0), lost=True)
        await engine.publish(stored(blocks=3))
        await reaches(3)

    follow(steps)


@pytest.mark.parametrize("vllm", ["0.19", "0.32"])
def test_a_lost_batch_is_replayed(follow, vllm):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await engine.publish(removed(9), lost=True)
        await engine.publish(stored(10, blocks=5), lost=True)
        await engine.publish(removed(0))
        await reaches(8)

    # Block 10 follows the removed block 9, so its event has no parent to continue.
    follow(steps, vllm, replay=True)


@pytest.mark.parametrize("vllm", ["0.19", "0.32"])
def test_what_was_cached_before_the_router_started_is_replayed(follow, vllm):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored(), lost=True)
        await engine.publish(stored(10, blocks=5), lost=True)
        await engine.publish(stored(15, blocks=1))
        await reaches(16)

    follow(steps, vllm, replay=True)


def test_a_restarted_engine_starts_from_nothing(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await engine.publish(stored(10, blocks=5))
        await reaches(15)
        engine.sent.clear()
        await engine.publish(stored(blocks=2))
        await reaches(2)

    follow(steps)


def test_what_a_restarted_engine_cached_unheard_is_replayed(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await engine.publish(stored(10, blocks=5))
        await reaches(15)
        engine.sent.clear()
        await engine.publish(stored(blocks=2), lost=True)
        await engine.publish(stored(2, blocks=1))
        await reaches(3)

    follow(steps, replay=True)


def test_an_engine_that_comes_back_at_its_address_is_followed_again(fake_engine, new_worker, until):
    async def run():
        async with fake_engine() as engine:
            worker = new_worker(kv_events=engine.address)
            strategy = KvAware(MIB)
            strategy.choose(PROMPT, [worker])
            await engine.subscribed()
            await engine.publish(stored())
            await engine.publish(stored(10, blocks=1))
            await until(lambda: indexed(strategy, worker) == 11)
        async with fake_engine(port=engine.port) as again:
            await again.subscribed()
            await again.publish(stored(blocks=4))
            await until(lambda: indexed(strategy, worker) == 4)
        await strategy.close()

    asyncio.run(run())


def test_a_forgotten_worker_is_followed_anew(follow):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await reaches(10)
        strategy.forget(worker)
        strategy.choose(PROMPT, [worker])
        assert indexed(strategy, worker) == 0
        await engine.subscribed()  # the first leaves
        await engine.subscribed()
        await engine.publish(stored(blocks=2))
        await reaches(2)

    follow(steps)


def test_an_unreadable_batch_drops_the_index_and_is_said_once(follow, caplog):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored())
        await reaches(10)
        for _ in range(2):
            engine.sent.append(b"\xc1")
            number = len(engine.sent) - 1
            await engine._events.send_multipart([b"", number.to_bytes(8, "big"), b"\xc1"])
        await reaches(0)
        await engine.publish(stored(blocks=5))
        await reaches(5)

    with caplog.at_level(logging.ERROR):
        follow(steps)
    assert [record.message for record in caplog.records] == ["KV events cannot be read"]


def test_a_full_index_stays_within_its_bound_and_says_so_once(follow, caplog):
    async def steps(engine, strategy, worker, reaches):
        await engine.publish(stored(blocks=600))
        await reaches(2**16 // 384)
        await engine.publish(stored(600))
        await engine.publish(removed(0))
        await reaches(2**16 // 384 - 1)

    with caplog.at_level(logging.WARNING):
        follow(steps, max_bytes=2**16)
    assert [record.message for record in caplog.records] == [
        "KV index is full: raise routing.prefix_index_bytes"
    ]


def test_an_address_that_is_none_is_reported(new_worker, caplog, until):
    async def run():
        async with kvaware(new_worker(kv_events="tcp://*:1")):
            await until(lambda: bool(caplog.records))

    asyncio.run(run())
    assert caplog.records[0].message == "KV events are no longer followed"
    assert caplog.records[0].exc_info[0] is zmq.ZMQError


def test_a_prompt_of_unknown_tokens_is_balanced(new_worker):
    async def run():
        a, b = (new_worker(name, kv_events="tcp://127.0.0.1:9") for name in ("a:1", "b:1"))
        async with kvaware(a, b) as strategy:
            return [strategy.choose(Prompt("x" * 4000), [a, b]).name for _ in range(3)]

    assert asyncio.run(run()) == ["b:1", "a:1", "b:1"]


@pytest.mark.parametrize("max_bytes", [2**20, 6 * 2**20])
def test_memory_stays_under_its_bound(max_bytes, new_worker):
    async def run():
        workers = [new_worker(f"p{number}:1", kv_events="tcp://127.0.0.1:9") for number in range(2)]
        async with kvaware(*workers, max_bytes=max_bytes) as strategy:
            applies = [partial(strategy._apply, one.blocks) for one in strategy._followed.values()]
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                for number in range(max_bytes // 300):
                    block_hash = number.to_bytes(32, "big")
                    applies[number % 2]([BlockStored([block_hash], None, [number] * SIZE, SIZE)])
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            return after - before

    assert max_bytes // 4 < asyncio.run(run()) < max_bytes
