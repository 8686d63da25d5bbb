"""The stand-in for RDMA: one process reads or writes pages in another, which has no say in it.

A message is one line of JSON over TCP, and so is its reply. Only simulated workers speak it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import msgspec

_LINE_BYTES = 2**26


class Pull(msgspec.Struct, tag=True):
    """Read blocks of a NIXL prefiller, and say that the request's blocks may go."""

    engine_id: str
    request_id: str
    block_ids: list[int]


class Write(msgspec.Struct, tag=True):
    """Write pages into the PD buffer of one rank of an LMCache decoder, by index."""

    rank: int
    indexes: list[int]
    contents: list[bytes]


class Reply(msgspec.Struct):
    """Return the contents that were asked for; ``refused`` says why not."""

    contents: list[bytes] = []
    refused: str = ""


_messages = msgspec.json.Decoder(Pull | Write)
_replies = msgspec.json.Decoder(Reply)


class SideChannel:
    """Serve the memory of one worker."""

    def __init__(self, host: str, port: int, serve: Callable[[Pull | Write], Reply]) -> None:
        self._host = host
        self._serve = serve
        self._server: asyncio.Server | None = None
        self.port = port

    async def start(self) -> None:
        """Bind; ``port`` is the real one afterwards."""
        self._server = await asyncio.start_server(self._answer, self._host, self.port, limit=_LINE_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Unbind."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            line = await reader.readline()
            if line:
                writer.write(msgspec.json.encode(self._serve(_messages.decode(line))) + b"\n")
                await writer.drain()


async def exchange(host: str, port: int, message: Pull | Write) -> Reply:
    """Send one message to another worker. Raises OSError where it is not there."""
    reader, writer = await asyncio.open_connection(host, port, limit=_LINE_BYTES)
    with closing(writer):
        writer.write(msgspec.json.encode(message) + b"\n")
        line = await reader.readline()
    if not line:
        raise ConnectionResetError(f"{host}:{port} closed the connection")
    return _replies.decode(line)
