"""Follow the KV events of one engine, from vLLM's ZmqEventPublisher."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import zmq
import zmq.asyncio

from dpd.router.strategies.kv_events import AllBlocksCleared, KvEvent, decode_events
from dpd.router.worker import Endpoint

_log = logging.getLogger("dpd.router.kv_events")
_REPLAY_SILENCE_S: Final = 5.0
_SEQUENCE_BYTES: Final = 8


class KvSubscription:
    """Hand every event to ``apply``, in order.

    Batches are numbered from 0 by each engine process. A number that is too low is a restart; one that is
    too high means that batches were lost, or came before the router did: they are fetched again where the
    engine has a replay endpoint. What cannot be fetched might have been a removal, so everything known is
    dropped, as if the engine had cleared its cache.
    """

    def __init__(
        self, context: zmq.asyncio.Context, endpoint: Endpoint, apply: Callable[[Sequence[KvEvent]], None]
    ) -> None:
        self._context = context
        self._endpoint = endpoint
        self._apply = apply
        self._expected = 0
        self._readable = True

    async def run(self) -> None:
        """Read until cancelled; ZeroMQ reconnects by itself."""
        with self._context.socket(zmq.SUB) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.subscribe(b"")
            _connect(socket, self._endpoint.kv_events)
            while True:
                _topic, sequence, payload = await socket.recv_multipart()
                await self._receive(int.from_bytes(sequence, "big"), payload)
                # A read that finds a message does not suspend: let requests have their turn.
                await asyncio.sleep(0)

    async def _receive(self, number: int, payload: bytes) -> None:
        if number < self._expected:
            self._drop("the engine restarted")
            self._expected = 0
        if number > self._expected and self._endpoint.kv_events_replay:
            await self._catch_up(number)
        self._take(number, payload)

    async def _catch_up(self, until: int) -> None:
        """Ask for the batches from the expected one on, and take those before ``until``."""
        with self._context.socket(zmq.DEALER) as socket, contextlib.suppress(TimeoutError):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVHWM, 0)
            _connect(socket, self._endpoint.kv_events_replay)
            await socket.send_multipart([b"", self._expected.to_bytes(_SEQUENCE_BYTES, "big")])
            while True:
                async with asyncio.timeout(_REPLAY_SILENCE_S):
                    # vLLM 0.32 sends the topic too; -1 ends the replay.
                    *_, sequence, payload = await socket.recv_multipart()
                number = int.from_bytes(sequence, "big", signed=True)
                if not 0 <= number < until:
                    return
                self._take(number, payload)
                await asyncio.sleep(0)

    def _take(self, number: int, payload: bytes) -> None:
        if number != self._expected:
            self._drop(f"batches {self._expected} to {number - 1} are missing")
        self._expected = number + 1
        try:
            events = decode_events(payload)
        except msgspec.MsgspecError as error:
            self._unreadable(error)
        else:
            self._readable = True
            self._apply(events)

    def _unreadable(self, error: msgspec.MsgspecError) -> None:
        self._apply([AllBlocksCleared()])
        if self._readable:
            _log.error("KV events cannot be read", extra={"worker": self._endpoint.name, "why": str(error)})
        self._readable = False

    def _drop(self, why: str) -> None:
        _log.info("KV index dropped", extra={"worker": self._endpoint.name, "why": why})
        self._apply([AllBlocksCleared()])


def _connect(socket: zmq.asyncio.Socket, address: str) -> None:
    # Without the option ZeroMQ takes an IPv6 address, and never connects.
    socket.setsockopt(zmq.IPV6, "[" in address)
    socket.connect(address)
