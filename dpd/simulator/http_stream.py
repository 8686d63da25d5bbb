"""Stream an answer, and break it where a fault says so.

Tokens are written straight to the transport, as one HTTP chunk each, made before the stream begins. aiohttp's
`write` is a coroutine, and costs a task switch per token and stream. As in vLLM, the engine does not wait
for a client that reads slowly: what it does not read stays in this process.
"""

from __future__ import annotations

import asyncio
import socket
import struct

from aiohttp import web

from dpd.simulator.faults import FaultKind, Faults

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class HttpStream:
    """Hold one streamed answer; ``open`` sends its headers."""

    def __init__(self, request: web.Request, faults: Faults) -> None:
        self._request = request
        self._faults = faults
        self._transport = request.transport
        self.response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        )
        self.response.enable_chunked_encoding()

    async def open(self) -> None:
        """Send status and headers, which vLLM does before it computes the prompt."""
        await self.response.prepare(self._request)

    def frames(self, events: list[bytes]) -> list[bytes]:
        """Return one HTTP chunk per event."""
        if self._faults.take(FaultKind.MALFORMED_JSON):
            events = [events[0][: len(events[0]) // 2] + b"\n\n", *events[1:]]
        oversized = self._faults.take(FaultKind.OVERSIZED_CHUNKS)
        if oversized:
            padding = b',"padding":"%b"}\n\n' % (b"x" * oversized.chunk_bytes)
            events = [event.removesuffix(b"}\n\n") + padding for event in events]
        return [_chunk(event) for event in events]

    def write(self, frame: bytes) -> None:
        """Write a frame now; nothing happens where the client is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def write_event(self, event: bytes) -> None:
        """Write an event that is no token."""
        self.write(_chunk(event))

    async def close(self) -> None:
        """End the answer regularly."""
        await self.response.write_eof()


def reset(transport: asyncio.Transport | None) -> None:
    """Break a connection with RST, as the kernel does for a process that dies."""
    if transport is None or transport.is_closing():
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)
