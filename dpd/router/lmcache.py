"""Hand over with LMCache 0.4.3's PD backend: the prefiller pushes pages into the decoder it is told.

The decoder knows a page from its allocation on, before it is written (LMCache#2847 and #2933 tell what that
leads to), so the decode leg waits for one notification per rank. A page is freed when a decode leg fetches
it, and in no other way.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, cast
from urllib.parse import urlsplit
from uuid import uuid4

from dpd.router.config import Lmcache
from dpd.router.failure import WorkerFailure, WorkerRefused
from dpd.router.notifications import Expected, NotificationSink
from dpd.router.openai_request import OpenAiRequest
from dpd.router.transport import Attempt, KvTransferParams, Send
from dpd.router.worker import Worker

# Part of each page's key on both sides, so no request finds, or waits for, a page of another.
_TAG: Final = "lmcache.tag.dpd"


class LmcacheTransport:
    """Speak the PD protocol; ``sink`` is bound before the first request."""

    reserves_pages = True

    def __init__(self, config: Lmcache, sink: NotificationSink) -> None:
        self._config = config
        self._sink = sink

    def pages(self, request: OpenAiRequest, tokens: int) -> int:
        """Return the pages of the prompt at one rank; a started chunk takes a whole page."""
        return -(-max(1, tokens) // self._config.chunk_tokens)

    async def hand_over(self, send: Send, attempt: Attempt) -> KvTransferParams:
        """Prefill into the attempt's decoder, and wait until every rank has written.

        A further attempt is always isolated: what the first left allocated is not what was written.
        """
        req_id = uuid4().hex
        isolated = self._config.isolate_requests or attempt.number > 0
        tag: dict[str, str] = {_TAG: req_id} if isolated else {}
        expected = attempt.held.enter_context(self._sink.expect(req_id, self._config.ranks))
        attempt.params, attempt.written = tag, expected.complete
        try:
            await send({"disagg_spec": _spec(req_id, attempt), "ret_first_tok": True, **tag})
            await self._all_ranks(expected, attempt)
        except WorkerRefused:
            attempt.params = None
            raise
        return tag

    async def _all_ranks(self, expected: Expected, attempt: Attempt) -> None:
        seconds = self._config.notify_timeout_s
        try:
            async with asyncio.timeout(seconds):
                await expected.complete.wait()
        except TimeoutError:
            detail = (
                f"{expected.seen} of {expected.ranks} ranks reported their pages within {seconds:g} s:"
                " do pd_proxy_host and pd_proxy_port of the prefillers lead here?"
            )
            raise WorkerFailure(attempt.prefiller.name, "no_notification", detail, 504) from None

    async def quiet(self, attempt: Attempt) -> None:
        """Wait for the ranks that did not report, at most ``notify_timeout_s``.

        They may be slow. A page that is fetched before it is written goes to another request, into which
        the writing then breaks.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.notify_timeout_s):
                await attempt.written.wait()

    def without_kv(self) -> KvTransferParams | None:
        """Return a tag that no page has."""
        return {_TAG: uuid4().hex}


def _spec(req_id: str, attempt: Attempt) -> dict[str, object]:
    decoder = cast("Worker", attempt.decoder).endpoint  # it has pages reserved
    return {
        "req_id": req_id,
        "receiver_host": decoder.receiver_host or urlsplit(decoder.url).hostname,
        "receiver_init_port": list(decoder.receiver_init_ports),
        "receiver_alloc_port": list(decoder.receiver_alloc_ports),
    }
