"""The answer to one client: whole, or as a stream that may still have to tell of an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import HttpVersion11, web

from dpd.router.failure import ClientGone, Failure

_LAST_WORDS_S = 5.0


class ClientAnswer:
    """Write one answer. Its coroutines raise ClientGone once the client has closed its connection.

    ``ready`` gives the response to the server when its last byte is written.
    """

    def __init__(self, request: web.Request, headers: dict[str, str]) -> None:
        self._request = request
        self._stream: web.StreamResponse | None = None
        self.headers = headers
        self.status = 0
        self.ready: asyncio.Future[web.StreamResponse] = asyncio.get_running_loop().create_future()

    @property
    def started(self) -> bool:
        """Tell whether the client has got anything, so that no other worker can answer any more."""
        return self._stream is not None

    async def start(self, content_type: str) -> None:
        """Begin a stream."""
        self.status = 200
        headers = {**self.headers, "Content-Type": content_type, "Cache-Control": "no-cache"}
        if self._request.version < HttpVersion11:
            # As many proxies speak it by default. It has no chunks: the stream ends with the connection.
            stream = web.StreamResponse(headers=headers)
        else:
            # Unlike a StreamResponse it sends its headers together with the first part.
            stream = web.Response(headers=headers)
            stream.enable_chunked_encoding()
        try:
            await stream.prepare(self._request)
        except ConnectionError:
            raise ClientGone from None
        self._stream = stream

    async def write(self, part: bytes) -> None:
        """Write a part of a stream that was started; waits while the client reads too slowly."""
        try:
            await self._started().write(part)
        except ConnectionError:
            raise ClientGone from None

    async def end(self, last: bytes = b"") -> None:
        """End a stream that was started, with ``last`` as its last bytes."""
        stream = self._started()
        try:
            if last:
                await stream.write(last)
            await stream.write_eof()
        except ConnectionError:
            raise ClientGone from None
        self._finish(stream)

    def whole(
        self, status: int, content_type: str, body: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        """Answer in one piece."""
        self.status = status
        headers = {**self.headers, **(more or {}), "Content-Type": content_type}
        self._finish(web.Response(status=status, body=body, headers=headers))

    def refuse(self, failure: Failure) -> None:
        """Tell of a failure as an HTTP error: nothing was started."""
        self.whole(failure.status, "application/json", failure.body(), failure.headers())

    async def fail(self, failure: Failure) -> None:
        """Tell of a failure: as an HTTP error, or as the last event of a stream that has begun.

        Such a stream has no `[DONE]`: nobody can take it for a whole answer. The empty line ends an event
        that was cut off.
        """
        if self._stream is None:
            self.refuse(failure)
            return
        self.status = failure.status
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.end(b"\n\ndata: %b\n\n" % failure.body())
        except TimeoutError:
            # It stopped reading; what waits in the buffers would be kept for it for ever.
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ClientGone from None

    def _started(self) -> web.StreamResponse:
        assert self._stream is not None  # noqa: S101 - callers start first
        return self._stream

    def _finish(self, response: web.StreamResponse) -> None:
        if not self.ready.done():
            self.ready.set_result(response)
