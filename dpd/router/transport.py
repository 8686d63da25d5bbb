"""What the two ways of moving a KV cache have in common, as the hand-over sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from dpd.router.openai_request import OpenAiRequest
from dpd.router.upstream import Answer
from dpd.router.worker import Worker

KvTransferParams = Mapping[str, Any]
Send = Callable[[KvTransferParams], Awaitable[Answer]]
"""Send the prefill leg with these parameters; raises WorkerFailure, or Rejected for a 4xx."""


@dataclass(slots=True, eq=False)
class Attempt:
    """Hold the ``number``-th attempt to prefill, counted from 0, and what it leaves at workers.

    ``decoder`` is the only one that can fetch it; None: any. ``params`` are those of a decode leg that
    would fetch, and so free, what was written; None: nothing was. ``written`` is set once every
    rank has written. ``held`` is closed when nothing is left.
    """

    number: int
    prefiller: Worker
    decoder: Worker | None = None
    params: KvTransferParams | None = None
    written: asyncio.Event = field(default_factory=asyncio.Event)
    held: ExitStack = field(default_factory=ExitStack)


class Transport(Protocol):
    """Move a KV cache from a prefiller to a decoder."""

    reserves_pages: bool
    """Whether the prefiller pushes into a decoder that must be chosen, and have pages, before it starts."""

    def pages(self, request: OpenAiRequest, tokens: int) -> int:
        """Return the pages that a prompt takes at a decoder."""
        ...

    async def hand_over(self, send: Send, attempt: Attempt) -> KvTransferParams:
        """Run the prefill leg until its KV cache is complete; return the decode leg's parameters.

        Raises WorkerFailure. ``attempt`` learns what must be released when no decode leg follows.
        """
        ...

    async def quiet(self, attempt: Attempt) -> None:
        """Wait until nobody writes for an attempt any more, as far as that can be known."""
        ...

    def without_kv(self) -> KvTransferParams | None:
        """Return the parameters of a decode leg that must not find what an attempt left behind."""
        ...
