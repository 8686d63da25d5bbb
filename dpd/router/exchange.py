"""One completion, from admission to its last byte, whatever fails on the way."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import msgspec

from dpd.router.client_answer import ClientAnswer
from dpd.router.failure import ClientGone, Failure, WorkerFailure, WorkerRefused
from dpd.router.handover import HandOver, Rejected
from dpd.router.interruption import Interruption
from dpd.router.metrics import ItlCounts, Outcome
from dpd.router.openai_request import OpenAiRequest
from dpd.router.pool import Demand, Lease, Length
from dpd.router.services import Services
from dpd.router.timeline import Timeline
from dpd.router.token_count import count_tokens
from dpd.router.transport import Attempt, KvTransferParams
from dpd.router.worker import Worker

_log = logging.getLogger("dpd.router")

DISAGGREGATED: Final = "disaggregated"
BYPASS: Final = "bypass"
FALLBACK: Final = "fallback"
_DECODE_ATTEMPTS: Final = 3
_CLIENT_ERROR: Final = 400
_CLOSED_REQUEST: Final = 499
_DONE: Final = b"data: [DONE]"
_ERROR_EVENT: Final = b'data: {"error"'
_TAIL_BYTES: Final = 32


@dataclass(slots=True, eq=False)
class Exchange:
    """Carry one request. It runs in a task of its own, which outlives a client that goes away.

    ``path`` and ``reason`` say how it was routed; ``id`` names it at workers, in logs and to the client.
    """

    services: Services
    request: OpenAiRequest
    answer: ClientAnswer
    id: str
    session: str
    trace_headers: dict[str, str]
    timeline: Timeline
    path: str = BYPASS
    reason: str = "short_prompt"
    prompt_tokens: int = 0
    prefiller: str = ""
    decoder: str = ""
    error: str = ""
    itl: ItlCounts = field(default_factory=ItlCounts)
    _interruption: Interruption = field(default_factory=Interruption)
    _hand_over: HandOver | None = None

    async def run(self) -> None:
        """Answer the client."""
        timeout_s = self.services.config.limits.request_timeout_s
        too_late = Failure(504, "request_timeout", f"not finished within {timeout_s:g} s")
        expiry = asyncio.get_running_loop().call_later(timeout_s, self.end, too_late)
        try:
            await self._answered()
        finally:
            expiry.cancel()
            self.timeline.mark("ended")
            self._record()

    async def settle(self) -> None:
        """Free what was handed over and no decode leg fetched."""
        if self._hand_over is not None:
            await self._hand_over.settle()

    async def _answered(self) -> None:
        try:
            with self._interruption:
                await self._carry()
        except Rejected as rejected:
            answer = rejected.answer
            self._show_route()
            self.answer.whole(answer.status, answer.content_type, answer.body)
        except ClientGone:
            self._gone()
        except Failure as failure:
            await self._fail(failure)
        except Exception:
            _log.exception("internal error", extra={"request_id": self.id})
            await self._fail(Failure(500, "internal_error", f"the router failed; its log has {self.id}"))

    async def _fail(self, failure: Failure) -> None:
        self.error = failure.code
        self._show_route()
        try:
            await self.answer.fail(failure)
        except ClientGone:
            self._gone()

    def _gone(self) -> None:
        self.error, self.answer.status = "client_gone", _CLOSED_REQUEST

    def abandon(self) -> None:
        """Note that the client went away."""
        self._interruption.interrupt(ClientGone())

    def end(self, failure: Failure) -> None:
        """Tell the client of ``failure`` now; a leg that must not be disturbed runs on for nobody."""
        if self._interruption.waits:
            self._show_route()
            self.answer.refuse(failure)
        self._interruption.interrupt(failure)

    async def _carry(self) -> None:
        handed = await self._hand_over_if_long()
        params: KvTransferParams | None = handed.params if handed else None
        if self.path == FALLBACK:
            params = self.services.transport.without_kv()
        avoid: set[Worker] = set()
        for attempt in range(_DECODE_ATTEMPTS):
            with await self._decoder(handed, avoid) as decoder:
                self.decoder = decoder.name
                try:
                    await self._decode(decoder, params, handed)
                    return
                except WorkerFailure as failure:
                    self._decode_failed(decoder, failure)
                    self._interruption.check()
                    if self.answer.started or attempt == _DECODE_ATTEMPTS - 1:
                        raise self._as_failure(failure) from None
                    never_arrived = isinstance(failure, WorkerRefused) and handed and not handed.decoder
            avoid.add(decoder)
            if handed is not None and not never_arrived:
                self.path, self.reason, handed = FALLBACK, "decode_failed", None
                params = self.services.transport.without_kv()

    async def _hand_over_if_long(self) -> Attempt | None:
        services, request = self.services, self.request
        threshold = services.config.routing.threshold_tokens
        self.prompt_tokens, prompt, room_tokens = await count_tokens(services, request, self.session)
        if self.prompt_tokens < threshold:
            return None
        self.reason = request.why_undivided()
        if self.reason:
            return None
        if not services.decode.fits(services.transport.pages(request, room_tokens)):
            self.path, self.reason = FALLBACK, "exceeds_pd_buffer"
            return None
        self._hand_over = HandOver(
            services, request, prompt, room_tokens, self._headers(), self._interruption, self.timeline
        )
        self.path, self.reason = DISAGGREGATED, "long_prompt"
        attempt = await self._hand_over.run()
        if attempt is None:
            self.path, self.reason = FALLBACK, self._hand_over.why_not
        else:
            self.prefiller = attempt.prefiller.name
        return attempt

    async def _decoder(self, handed: Attempt | None, avoid: set[Worker]) -> Lease:
        pool, transport = self.services.decode, self.services.transport
        others = any(worker not in avoid for worker in pool.usable())
        pages = 0 if transport.reserves_pages else transport.pages(self.request, self.prompt_tokens)
        demand = Demand(
            Length.SHORT if self.path == BYPASS else Length.LONG,
            pages=pages,
            only=handed.decoder if handed else None,
            avoid=frozenset(avoid) if others else frozenset(),
        )
        admitted = self.timeline.has("admitted")
        lease = await pool.acquire(demand, admitted=admitted)
        if not admitted:
            self.timeline.mark("admitted")
        return lease

    async def _decode(self, decoder: Worker, params: KvTransferParams | None, handed: Attempt | None) -> None:
        """Run the decode leg. Until a decoder that was pushed into has fetched its pages, it runs on."""
        limits = self.services.config.limits
        body = self.request.decode_body(params)
        self.timeline.mark("decode_start")
        idle_timeout_s = limits.stream_idle_timeout_s if self.request.stream else None
        with ExitStack() as held:
            if handed is not None and self.services.transport.reserves_pages:
                held.enter_context(self._interruption.undisturbed())
            async with self.services.upstream.open(
                decoder, self.request.path, body, self._headers(), limits.request_timeout_s, idle_timeout_s
            ) as response:
                if response.content_type == "text/event-stream":
                    await self._stream(response, decoder, handed, held)
                else:
                    await self._whole(response, decoder, handed)

    async def _whole(self, response: aiohttp.ClientResponse, decoder: Worker, handed: Attempt | None) -> None:
        body = await response.read()
        self.timeline.mark("first_byte")
        if response.status < _CLIENT_ERROR:
            _check_json(decoder, body)
        decoder.breaker.succeed()
        if response.status < _CLIENT_ERROR:
            self._fetched(handed)
        self._show_route()
        self.answer.whole(response.status, response.headers.get("Content-Type", "application/json"), body)

    async def _stream(
        self, response: aiohttp.ClientResponse, decoder: Worker, handed: Attempt | None, held: ExitStack
    ) -> None:
        """Pass events on as they come.

        The client gets nothing before the first, so that until then another decoder can take over. That is
        so too where the first is an error: vLLM has sent its 200 before it fails to load a KV cache.
        """
        read = response.content.readany
        chunk = await read()
        if not chunk:
            raise WorkerFailure(decoder.name, "broken", "ended its stream before the first event")
        if chunk.startswith(_ERROR_EVENT):
            text = chunk[:500].decode(errors="replace")
            raise WorkerFailure(decoder.name, "status", f"began its stream with an error: {text}")
        before_s = self.timeline.started_s + self.timeline.mark("first_byte")
        self._fetched(handed)
        held.close()
        decoder.breaker.end_trial()
        self._show_route()
        await self.answer.start("text/event-stream; charset=utf-8")
        await self.answer.write(chunk)
        tail = chunk[-_TAIL_BYTES:]
        while chunk := await read():
            now_s = time.perf_counter()
            self.itl.add(now_s - before_s)
            before_s = now_s
            await self.answer.write(chunk)
            tail = chunk[-_TAIL_BYTES:] if len(chunk) >= _TAIL_BYTES else (tail + chunk)[-_TAIL_BYTES:]
        if _DONE not in tail:
            raise WorkerFailure(decoder.name, "broken", "ended its stream early")
        decoder.breaker.succeed()
        await self.answer.end()

    def _fetched(self, handed: Attempt | None) -> None:
        if handed is not None and self._hand_over is not None:
            self._hand_over.close(handed)

    def _decode_failed(self, decoder: Worker, failure: WorkerFailure) -> None:
        decoder.breaker.fail()
        self.services.metrics.worker_failed(decoder, failure.kind)
        _log.warning(
            "decode failed", extra={"request_id": self.id, "worker": decoder.name, "why": str(failure)}
        )

    def _as_failure(self, failure: WorkerFailure) -> Failure:
        return Failure(failure.status, f"decode_{failure.kind}", f"decode failed: {failure.detail}")

    def _show_route(self) -> None:
        self.answer.headers.update(
            {
                "x-dpd-path": self.path,
                "x-dpd-reason": self.reason,
                **({"x-dpd-prefiller": self.prefiller} if self.prefiller else {}),
                **({"x-dpd-decoder": self.decoder} if self.decoder else {}),
            }
        )

    def _headers(self) -> dict[str, str]:
        return {"X-Request-Id": self.id, **self.trace_headers}

    def _record(self) -> None:
        status, tokens = self.answer.status, self.prompt_tokens
        workers = (self.prefiller, self.decoder)
        outcome = Outcome(self.path, self.reason, status, self.error, tokens, *workers)
        self.services.metrics.finished(outcome, self.timeline, self.itl)
        self.services.tracer.finished(self.id, outcome, self.timeline)
        moments_ms = {name: round(1000 * at_s, 1) for name, at_s in self.timeline.moments_s.items()}
        _log.info(
            "request",
            extra={
                "request_id": self.id,
                "path": self.path,
                "reason": self.reason,
                "status": status,
                **({"error": self.error} if self.error else {}),
                "prompt_tokens": tokens,
                "prefiller": self.prefiller,
                "decoder": self.decoder,
                "ms": moments_ms,
            },
        )


def _check_json(decoder: Worker, body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.MsgspecError as error:
        raise WorkerFailure(decoder.name, "malformed", f"answered what is not JSON: {error}") from None
