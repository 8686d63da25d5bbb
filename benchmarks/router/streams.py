"""Load one address with streamed chat completions: a process of its own, told by JSON on standard input.

Streams begin one after the other. Each keeps one connection, and asks again after its answer and a pause of a
fraction of one engine step. The fractions cover the step evenly: without them every request would arrive
just after a step, since that is when answers end. Raw protocols that parse nothing but what is counted
leave the cores to routers and workers.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import cast

import psutil
import uvloop

EVENT = b"data: "
GOLDEN = 0.618034
"""Multiples of it, modulo 1, cover the unit interval evenly for any number of them."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Job:
    """Say what to ask, of whom, and whose CPU time to read.

    With ``prefill_port`` the client hands over itself: prefill leg there, decode leg at ``port``. The window
    that counts begins with request ``warm_up`` and ends when request ``requests`` begins; streams are
    all busy in it.
    """

    port: int
    prefill_port: int | None
    pid: int | None
    streams: int
    prompt_characters: int
    answer_tokens: int
    itl_s: float
    warm_up: int
    requests: int


@dataclass
class Result:
    """Hold what was seen in the window. ``cpu_s`` is user and system time of the process ``pid``."""

    ttft_s: list[float] = field(default_factory=list)
    events: int = 0
    window_s: float = 0.0
    cpu_s: float = 0.0


class Connection(asyncio.Protocol):
    """Ask over one kept-alive connection, one request at a time."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._answer = bytearray()
        self._done: asyncio.Future[bytes] | None = None
        self.events = 0
        self.first_event_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, body: bytes) -> bytes:
        """Post one completion and return its answer, head and body. Raises RuntimeError for all but a 200."""
        self._answer.clear()
        self.events = 0
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        answer = await self._done
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(answer[:1000].decode(errors="replace"))
        return answer

    def data_received(self, data: bytes) -> None:
        """Count the events that are new, and see whether the answer is whole."""
        start = max(0, len(self._answer) - len(EVENT) + 1)
        self._answer += data
        events = self._answer.count(EVENT, start)
        if events:
            if not self.events:
                self.first_event_s = time.perf_counter()
            self.events += events
            self._count(events)
        if self._done is not None and not self._done.done() and self._whole():
            self._done.set_result(bytes(self._answer))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        if self._done is not None and not self._done.done():
            self._done.set_exception(RuntimeError(f"connection lost: {exc}"))

    def close(self) -> None:
        """Close."""
        self._transport.close()

    def _whole(self) -> bool:
        if self._answer.endswith(_LAST_CHUNK):
            return True
        end = self._answer.find(b"\r\n\r\n")
        length = _LENGTH.search(self._answer, 0, end + 2)
        return length is not None and len(self._answer) == end + 4 + int(length[1])


class Load:
    """Run one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._begun = 0
        self._process = psutil.Process(job.pid) if job.pid else None
        self._result = Result()
        self._counting = False
        self._padding = b"benchmark " * (job.prompt_characters // 10)

    async def run(self) -> Result:
        """Return the result once every answer is complete."""
        await asyncio.gather(*map(self._stream, range(self._job.streams)))
        return self._result

    async def _stream(self, number: int) -> None:
        job = self._job
        await asyncio.sleep(number / job.streams * job.answer_tokens * job.itl_s)
        decode = await self._connect(job.port)
        prefill = await self._connect(job.prefill_port) if job.prefill_port else None
        while self._begun < job.requests:
            self._begun += 1
            self._turn()
            request = self._begun
            await asyncio.sleep(request * GOLDEN % 1 * job.itl_s)
            await self._ask(request, decode, prefill)
        for connection in filter(None, (decode, prefill)):
            connection.close()

    def _turn(self) -> None:
        """Begin or end the window."""
        if self._begun == self._job.warm_up:
            self._counting, sign = True, -1
        elif self._begun == self._job.requests:
            self._counting, sign = False, 1
        else:
            return
        self._result.window_s += sign * time.perf_counter()
        if self._process is not None:
            times = self._process.cpu_times()
            self._result.cpu_s += sign * (times.user + times.system)

    async def _connect(self, port: int) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self._count), "127.0.0.1", port)
        return connection

    def _count(self, events: int) -> None:
        if self._counting:
            self._result.events += events

    async def _ask(self, number: int, decode: Connection, prefill: Connection | None) -> None:
        body = self._body(number)
        counts = self._counting
        started_s = time.perf_counter()
        if prefill is not None:
            answer = await prefill.ask(_with(body, b'"stream":false,"max_tokens":1,', _ASK))
            params = json.loads(answer[answer.index(b"\r\n\r\n") :])["kv_transfer_params"]
            body = _with(body, b"", json.dumps(params).encode())
        await decode.ask(body)
        # One for each token, the opening one with the role, and [DONE].
        if decode.events != self._job.answer_tokens + 2:
            raise RuntimeError(f"{decode.events} events for {self._job.answer_tokens} tokens")
        if counts:
            self._result.ttft_s.append(decode.first_event_s - started_s)

    def _body(self, number: int) -> bytes:
        """Return a request whose prompt shares no prefix with any other."""
        return (
            b'{"model":"tiny","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":%d,'
            b'"messages":[{"role":"user","content":"%d-%d %b"}]}'
            % (self._job.answer_tokens, number, time.time_ns(), self._padding)
        )


_ASK = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,'
    b'"remote_host":null,"remote_port":null}'
)


def _with(body: bytes, more: bytes, params: bytes) -> bytes:
    return b'%b,%b"kv_transfer_params":%b}' % (body[:-1], more, params)


def main() -> None:
    """Read a Job, run it, and write a Result."""
    job = Job(**json.load(sys.stdin))
    json.dump(asdict(uvloop.run(Load(job).run())), sys.stdout)


if __name__ == "__main__":
    main()
