"""What the two ways of moving a KV cache have in common, as the hand-over sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpd.router.openai_request import OpenAiRequest
from dpd.router.pool import Lease
from dpd.router.upstream import Answer
from dpd.router.worker import Worker

KvTransferParams = Mapping[str, Any]
Send = Callable[[KvTransferParams], Awaitable[Answer]]
"""Send the prefill leg with these parameters; raises WorkerFailure, or Rejected for a 4xx."""


@dataclass(slots=True)
class Attempt:
    """Hold the ``number``-th attempt to prefill, counted from 0, and what it leaves at workers.

    ``reservation`` are the pages that it may fill at one decoder. ``params`` are those of a decode leg that
    would fetch, and so free, what was written; None: nothing was.
    """

    number: int
    prefiller: Worker
    reservation: Lease | None = None
    params: KvTransferParams | None = None

    @property
    def decoder(self) -> Worker | None:
        """Return the only decoder that can fetch it; None: any."""
        return self.reservation.worker if self.reservation else None


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

    def without_kv(self) -> KvTransferParams | None:
        """Return the parameters of a decode leg that must not find what an attempt left behind."""
        ...
