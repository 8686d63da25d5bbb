import asyncio

import pytest

from dpd.router.breaker import Breaker
from dpd.router.failure import Failure
from dpd.router.pool import Demand, Length, Pool, Room
from dpd.router.worker import Endpoint, Role

SHORT, LONG = Demand(Length.SHORT), Demand(Length.LONG)


def pool(*names, role=Role.DECODE, slots=1, pages=None, queue_length=8, queue_timeout_s=10.0):
    made = Pool(role, Room(slots, pages, queue_length, queue_timeout_s), lambda: Breaker(1, 1.0))
    came, _ = made.update(Endpoint(f"http://{name}:1") for name in names)
    for worker in came:
        worker.healthy = True
    return made


def worker(pool, name):
    return pool.workers[Endpoint(f"http://{name}:1")]


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_least_loaded_worker_is_leased():
    async def run():
        decode = pool("a", "b", slots=4)
        worker(decode, "a").running = 2
        return (await decode.acquire(SHORT)).worker.name

    assert asyncio.run(run()) == "b:1"


def test_pages_count_as_load():
    async def run():
        decode = pool("a", "b", slots=4)
        worker(decode, "a").running, worker(decode, "b").pages = 2, 3
        return (await decode.acquire(SHORT)).worker.name

    assert asyncio.run(run()) == "a:1"


def test_a_release_gives_the_room_back_once():
    async def run():
        decode = pool("a", slots=2, pages=10)
        lease = await decode.acquire(Demand(Length.LONG, pages=7))
        lease.release()
        lease.release()
        return worker(decode, "a")

    one = asyncio.run(run())
    assert (one.running, one.pages) == (0, 0)


def test_who_waits_is_served_when_room_comes_free():
    async def run():
        decode = pool("a")
        first = await decode.acquire(SHORT)
        second = asyncio.create_task(decode.acquire(SHORT))
        await settle()
        assert not second.done()
        first.release()
        return (await second).worker.name

    assert asyncio.run(run()) == "a:1"


def test_short_and_long_take_turns():
    async def run():
        decode = pool("a")
        lease = await decode.acquire(SHORT)
        order = []

        async def wait(name, demand):
            with await decode.acquire(demand):
                order.append(name)

        tasks = [asyncio.create_task(wait(f"long{n}", LONG)) for n in range(3)]
        tasks += [asyncio.create_task(wait(f"short{n}", SHORT)) for n in range(2)]
        await settle()
        lease.release()
        await asyncio.gather(*tasks)
        return order

    order = asyncio.run(run())
    assert order.index("short1") < order.index("long2")
    assert order.index("long0") < order.index("short1")


def test_a_long_prompt_without_pages_holds_up_no_short_one():
    async def run():
        decode = pool("a", slots=8, pages=10)
        await decode.acquire(Demand(Length.LONG, pages=8))
        stuck = asyncio.create_task(decode.acquire(Demand(Length.LONG, pages=8)))
        await settle()
        lease = await decode.acquire(SHORT)
        stuck.cancel()
        return lease.worker.name

    assert asyncio.run(run()) == "a:1"


def test_a_full_queue_refuses_with_retry_after():
    async def run():
        decode = pool("a", queue_length=0)
        await decode.acquire(SHORT)
        await decode.acquire(SHORT)

    with pytest.raises(Failure) as refused:
        asyncio.run(run())
    assert (refused.value.status, refused.value.code) == (429, "queue_full")
    assert refused.value.headers() == {"Retry-After": "1"}


def test_work_that_was_begun_is_never_refused():
    async def run():
        decode = pool("a", queue_length=0)
        first = await decode.acquire(SHORT)
        second = asyncio.create_task(decode.acquire(LONG, admitted=True))
        await settle()
        first.release()
        return (await second).worker.name

    assert asyncio.run(run()) == "a:1"


def test_waiting_ends_with_503():
    async def run():
        decode = pool("a", queue_timeout_s=0.01)
        await decode.acquire(SHORT)
        await decode.acquire(SHORT)

    with pytest.raises(Failure, match="queue_timeout"):
        asyncio.run(run())


def test_who_stops_waiting_takes_no_room():
    async def run():
        decode = pool("a")
        first = await decode.acquire(SHORT)
        second = asyncio.create_task(decode.acquire(SHORT))
        await settle()
        first.release()  # gives the room to the second, which is cancelled before it runs
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        return worker(decode, "a").running, decode.waiting(Length.SHORT)

    assert asyncio.run(run()) == (0, 0)


def test_who_stopped_waiting_is_passed_over():
    async def run():
        decode = pool("a")
        first = await decode.acquire(SHORT)
        second, third = (asyncio.create_task(decode.acquire(SHORT)) for _ in range(2))
        await settle()
        second.cancel()  # before it runs again, the room comes free
        first.release()
        await asyncio.gather(second, return_exceptions=True)
        return (await third).worker.name, worker(decode, "a").running

    assert asyncio.run(run()) == ("a:1", 1)


def test_who_waits_for_pages_stands_in_front_of_nobody_who_has_some():
    async def run():
        decode = pool("a", slots=1, pages=10)
        with await decode.acquire(SHORT):
            pages = await decode.acquire(Demand(Length.PAGES, slots=0, pages=10))
            more = asyncio.create_task(decode.acquire(Demand(Length.PAGES, slots=0, pages=10)))
            await settle()
            decoding = asyncio.create_task(decode.acquire(LONG))
            await settle()
        (await decoding).release()
        assert not more.done()
        pages.release()
        return (await more).worker.name

    assert asyncio.run(run()) == "a:1"


def test_a_trial_without_a_verdict_ends_with_its_lease():
    async def run():
        prefill = pool("a", role=Role.PREFILL)
        breaker = worker(prefill, "a").breaker = Breaker(1, 0.0)
        breaker.fail()
        lease = await prefill.acquire(LONG)
        assert prefill.usable() == []
        lease.release()
        return prefill.usable()

    assert [one.name for one in asyncio.run(run())] == ["a:1"]


def test_who_can_only_get_what_it_avoids_stops_waiting():
    async def run():
        prefill = pool("a", "b", role=Role.PREFILL)
        await prefill.acquire(LONG)
        await prefill.acquire(LONG)
        avoid = frozenset({worker(prefill, "a")})
        waiting = asyncio.create_task(prefill.acquire(Demand(Length.LONG, avoid=avoid)))
        await settle()
        worker(prefill, "b").lose()
        prefill.serve()
        await waiting

    with pytest.raises(Failure, match="no_prefill_worker"):
        asyncio.run(run())


def test_an_avoided_worker_is_not_used():
    async def run():
        prefill = pool("a", "b", role=Role.PREFILL)
        avoid = frozenset({worker(prefill, "a")})
        return (await prefill.acquire(Demand(Length.LONG, avoid=avoid))).worker.name

    assert asyncio.run(run()) == "b:1"


def test_without_prefillers_nobody_waits():
    async def run():
        prefill = pool("a", role=Role.PREFILL)
        await prefill.acquire(LONG)
        waiting = asyncio.create_task(prefill.acquire(LONG))
        await settle()
        worker(prefill, "a").lose()
        prefill.serve()
        await waiting

    with pytest.raises(Failure, match="no_prefill_worker"):
        asyncio.run(run())


def test_an_ejected_prefiller_is_not_usable():
    prefill = pool("a", role=Role.PREFILL)
    worker(prefill, "a").breaker.fail()
    assert prefill.usable() == []


def test_the_last_healthy_decoder_is_used_though_ejected():
    decode = pool("a", "b")
    worker(decode, "a").breaker.fail()
    assert [one.name for one in decode.usable()] == ["b:1"]
    worker(decode, "b").healthy = False
    assert [one.name for one in decode.usable()] == ["a:1"]


def test_discovery_keeps_the_state_of_workers_that_stay():
    decode = pool("a", "b")
    worker(decode, "a").running = 3
    came, left = decode.update([Endpoint("http://a:1"), Endpoint("http://c:1")])
    assert [one.name for one in came] == ["c:1"]
    assert [(one.name, one.gone) for one in left] == [("b:1", True)]
    assert worker(decode, "a").running == 3


def test_a_prompt_larger_than_the_buffer_never_fits():
    assert pool("a", pages=10).fits(10)
    assert not pool("a", pages=10).fits(11)
