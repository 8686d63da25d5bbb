import asyncio

import pytest

from dpd.router.interruption import Interruption


class Gone(Exception):
    pass


def interrupted(block, *reasons):
    """Run ``block`` inside an interruption, with the reasons that come while it sleeps."""

    async def run():
        with Interruption() as interruption:
            for reason in reasons:
                asyncio.get_running_loop().call_soon(interruption.interrupt, reason)
            await block(interruption)

    asyncio.run(run())


def test_the_first_reason_leaves_the_block():
    with pytest.raises(Gone, match="first"):
        interrupted(lambda _: asyncio.sleep(60), Gone("first"), Gone("second"))


def test_an_undisturbed_block_runs_to_its_end():
    done = []

    async def block(interruption):
        with interruption.undisturbed():
            await asyncio.sleep(0.01)
            done.append("inside")
        done.append("after")

    with pytest.raises(Gone):
        interrupted(block, Gone())
    assert done == ["inside"]


def test_the_own_error_of_an_undisturbed_block_comes_first():
    async def fails(interruption):
        with interruption.undisturbed():
            await asyncio.sleep(0.01)
            raise ValueError("own")

    async def block(interruption):
        with pytest.raises(ValueError, match="own"):
            await fails(interruption)
        interruption.check()

    with pytest.raises(Gone):
        interrupted(block, Gone())


def test_nothing_undisturbed_is_begun_for_nobody():
    interruption = Interruption()
    interruption.interrupt(Gone())
    with pytest.raises(Gone), interruption.undisturbed():
        raise AssertionError


def test_an_undisturbed_block_says_that_interruptions_wait():
    interruption = Interruption()
    with interruption.undisturbed():
        assert interruption.waits
    assert not interruption.waits
