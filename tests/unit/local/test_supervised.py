"""One process under the supervisor: what it does about hanging."""

from __future__ import annotations

import asyncio
import os
import signal

from dpd.local.home import EnvironmentFolder
from dpd.local.processes import command_of, find
from dpd.local.state import Desired
from dpd.local.supervised import Supervised

PATIENCE_S = 60


def test_a_process_that_was_well_and_hangs_is_started_again(
    folder: EnvironmentFolder, desired: Desired
) -> None:
    async def hang() -> None:
        process = Supervised(desired.processes[0], folder, lambda: None, hang_s=0.5)
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE_S):
            process.start(tasks)
            while not process.ready:
                await asyncio.sleep(0.05)
            command = command_of(find(process.state.identity))
            assert command is not None
            os.killpg(command.pid, signal.SIGSTOP)
            while not (process.ready and process.state.restarts == 1):
                await asyncio.sleep(0.05)
            await process.stop()
            assert process.state.identity is None

    asyncio.run(hang())
