"""One process under the supervisor: what it does about hanging."""

from __future__ import annotations

import asyncio
import os
import signal
from urllib.parse import urlsplit

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


def test_a_server_of_somebody_else_is_not_taken_for_the_process(
    folder: EnvironmentFolder, desired: Desired
) -> None:
    spec = desired.processes[0]

    async def start_beside(other: asyncio.Server) -> None:
        process = Supervised(spec, folder, lambda: None)
        async with other, asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE_S):
            process.start(tasks)
            while process.state.restarts == 0:
                await asyncio.sleep(0.05)
                assert not process.ready
            await process.stop()

    async def main() -> None:
        await start_beside(await asyncio.start_server(_answer_ok, "127.0.0.1", urlsplit(spec.url).port))

    asyncio.run(main())
    assert f"{spec.url} is in use by another program" in folder.log(spec.name).read_text()


async def _answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()
    await writer.wait_closed()
