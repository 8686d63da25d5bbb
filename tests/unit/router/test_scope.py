import asyncio

import pytest

from dpd.router.scope import Scope


class Ended(Exception):
    pass


async def scoped(*reasons):
    """Wait inside a scope that is ended with each reason in turn."""
    with Scope() as scope:
        for reason in reasons:
            asyncio.get_running_loop().call_soon(scope.end, reason)
        await asyncio.sleep(60)


def test_the_reason_leaves_the_block():
    with pytest.raises(Ended, match="now"):
        asyncio.run(scoped(Ended("now")))


def test_the_first_reason_counts():
    with pytest.raises(Ended, match="first"):
        asyncio.run(scoped(Ended("first"), Ended("second")))


def test_the_task_goes_on_after_the_block():
    async def run():
        with pytest.raises(Ended):
            await scoped(Ended())
        await asyncio.sleep(0)
        return asyncio.current_task().cancelling()

    assert asyncio.run(run()) == 0


def test_a_block_that_was_left_is_not_ended():
    async def run():
        with Scope() as scope:
            await asyncio.sleep(0)
        scope.end(Ended())
        await asyncio.sleep(0)

    asyncio.run(run())


def test_an_inner_block_ends_alone():
    async def run():
        with Scope() as outer:
            with pytest.raises(Ended, match="inner"):
                await scoped(Ended("inner"))
            asyncio.get_running_loop().call_soon(outer.end, Ended("outer"))
            await asyncio.sleep(60)

    with pytest.raises(Ended, match="outer"):
        asyncio.run(run())


def test_an_outer_block_ends_what_stands_inside():
    async def run():
        with Scope() as outer:
            asyncio.get_running_loop().call_soon(outer.end, Ended("outer"))
            await scoped()

    with pytest.raises(Ended, match="outer"):
        asyncio.run(run())


def test_a_cancelled_task_stays_cancelled():
    async def run():
        async def cancelled_and_ended():
            with Scope() as scope:
                scopes.append(scope)
                await asyncio.sleep(60)

        scopes = []
        task = asyncio.create_task(cancelled_and_ended())
        await asyncio.sleep(0)
        task.cancel()
        scopes[0].end(Ended())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
