"""The sink to which LMCache 0.4.3's prefillers send one notification per rank.

Each rank's sender pushes `{"type": "ProxyNotif", "req_id": ...}`, msgpack, over ZeroMQ when its pages are
written. Without a listener the sender blocks after 1,000 messages, and its worker hangs: the sink is bound
before the router is ready, and reads everything that comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import zmq
import zmq.asyncio

from dpd.router.discovery.source import in_url

_log = logging.getLogger("dpd.router.notifications")


class ProxyNotif(msgspec.Struct, tag=True):
    """Say that one rank of a prefiller has written all pages of a request."""

    req_id: str


_decoder = msgspec.msgpack.Decoder(ProxyNotif)


@dataclass(slots=True)
class Expected:
    """Count the notifications of one request."""

    ranks: int
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    seen: int = 0

    def count(self) -> None:
        """Count one rank."""
        self.seen += 1
        if self.seen >= self.ranks:
            self.complete.set()


class NotificationSink:
    """Bind a PULL socket and hand each notification to whom it concerns.

    Raises zmq.ZMQError from ``bind`` where the address is taken.
    """

    def __init__(self) -> None:
        self._expected: dict[str, Expected] = {}
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)

    def bind(self, host: str, port: int) -> int:
        """Bind, and return the port; 0 takes a free one."""
        address = f"tcp://{in_url(host)}:{port or '*'}"
        self._socket.setsockopt(zmq.IPV6, "[" in address)
        self._socket.bind(address)
        return int(self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1].rstrip("\0"))

    @contextmanager
    def expect(self, req_id: str, ranks: int) -> Generator[Expected]:
        """Count what arrives for ``req_id`` while the block lasts; later ones are dropped."""
        self._expected[req_id] = Expected(ranks)
        try:
            yield self._expected[req_id]
        finally:
            del self._expected[req_id]

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            message = await self._socket.recv()
            try:
                req_id = _decoder.decode(message).req_id
            except msgspec.MsgspecError as error:
                _log.warning("unreadable notification", extra={"error": str(error), "bytes": len(message)})
                continue
            expected = self._expected.get(req_id)
            if expected is None:
                _log.info("notification for nobody", extra={"req_id": req_id})
            else:
                expected.count()

    def close(self) -> None:
        """Unbind."""
        self._socket.close()
        self._context.term()
