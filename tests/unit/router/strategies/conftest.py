"""An engine that publishes KV events as vLLM does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

_EVENTS: dict[str, list[Any]] = {
    "BlockStored": [
        *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
        ("extra_keys", Any, None),
        ("group_idx", Any, None),
    ],
    "BlockRemoved": ["block_hashes", "medium", ("group_idx", Any, None)],
    "AllBlocksCleared": [],
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "BlockStored": {"lora_id": None, "medium": "GPU", "lora_name": None},
    "BlockRemoved": {"medium": "GPU"},
    "AllBlocksCleared": {},
}


def _encode(vllm: str, number: int, events: list[tuple[str, dict[str, Any]]]) -> bytes:
    """Encode a batch as vLLM 0.19 (events are arrays) or 0.32 (events are maps) does."""
    options: dict[str, Any] = {"omit_defaults": True}
    batch = msgspec.defstruct("Batch", ["ts", "events", ("rank", Any, None)], array_like=True, **options)
    made = [
        msgspec.defstruct(kind, _EVENTS[kind], tag=True, array_like=vllm == "0.19", **options)(
            **_DEFAULTS[kind] | fields
        )
        for kind, fields in events
    ]
    return msgspec.msgpack.encode(batch(float(number), made, 0))


class FakeEngine:
    """Publish batches as vLLM's ZmqEventPublisher does. An async context manager."""

    def __init__(self, vllm: str = "0.32", port: int = 0, host: str = "127.0.0.1") -> None:
        self._vllm = vllm
        self._context = zmq.asyncio.Context()
        # XPUB is PUB that also tells of subscribers, without whom a message is lost.
        self._events = self._context.socket(zmq.XPUB)
        self._events.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._replays = self._context.socket(zmq.ROUTER)
        for socket in (self._events, self._replays):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.IPV6, "[" in host)
        self._events.bind(f"tcp://{host}:{port or '*'}")
        self._replays.bind(f"tcp://{host}:*")
        self.address = self._events.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self.replay_address = self._replays.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.sent: list[bytes] = []

    async def __aenter__(self) -> FakeEngine:
        self._serving = asyncio.create_task(self._serve_replays())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._serving.cancel()
        with suppress(asyncio.CancelledError):
            await self._serving
        self._context.destroy(linger=0)

    async def subscribed(self) -> None:
        """Wait until a subscriber comes, or goes."""
        async with asyncio.timeout(20):
            await self._events.recv()

    async def publish(self, *events: tuple[str, dict[str, Any]], lost: bool = False) -> None:
        """Send one batch, or keep it for the replay alone."""
        number = len(self.sent)
        self.sent.append(_encode(self._vllm, number, list(events)))
        if not lost:
            await self._events.send_multipart([b"", number.to_bytes(8, "big"), self.sent[-1]])

    async def _serve_replays(self) -> None:
        topic = [b""] if self._vllm == "0.32" else []
        while True:
            client, _, start = await self._replays.recv_multipart()
            for number in range(int.from_bytes(start, "big"), len(self.sent)):
                frames = [client, b"", *topic, number.to_bytes(8, "big"), self.sent[number]]
                await self._replays.send_multipart(frames)
            end = (-1).to_bytes(8, "big", signed=True)
            await self._replays.send_multipart([client, b"", *topic, end, b""])


@pytest.fixture
def fake_engine() -> type[FakeEngine]:
    """Return the class of a stand-in for an engine that publishes KV events."""
    return FakeEngine


@pytest.fixture
def encode_kv_batch() -> Callable[..., bytes]:
    """Return the encoder of a batch of KV events."""
    return _encode
