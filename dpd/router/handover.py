"""Find a prefiller for one prompt, and move its KV cache to where it is decoded."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from dpd.router.failure import Failure, WorkerFailure
from dpd.router.interruption import Interruption
from dpd.router.openai_request import OpenAiRequest
from dpd.router.pool import Demand, Lease, Length
from dpd.router.prompt import Prompt
from dpd.router.services import Services
from dpd.router.timeline import Timeline
from dpd.router.transport import Attempt, KvTransferParams
from dpd.router.upstream import Answer
from dpd.router.worker import Worker

_log = logging.getLogger("dpd.router.handover")

# Long enough for a network that was cut, or a server that is overrun, to come back with its pages.
_RELEASE_PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_CLIENT_ERROR = 400


@dataclass
class Rejected(Exception):
    """Carry a worker's 4xx: the client's mistake, which no other worker would see differently."""

    answer: Answer


@dataclass(slots=True)
class HandOver:
    """Hand one prompt over. ``open`` are the attempts whose pages or blocks no decode leg has fetched yet.

    ``why_not`` says why nothing was handed over, once ``run`` returned None.
    """

    services: Services
    request: OpenAiRequest
    prompt: Prompt
    tokens: int
    headers: dict[str, str]
    interruption: Interruption
    timeline: Timeline
    why_not: str = "no_prefiller"
    open: list[Attempt] = field(default_factory=list[Attempt])

    async def run(self) -> Attempt | None:
        """Return the attempt whose KV cache is complete; None where a decoder must prefill itself.

        Raises Failure where there is no room and no other way, Rejected, and the reason of an interruption.
        """
        tried: set[Worker] = set()
        for number in range(self.services.config.limits.prefill_attempts):
            lease = await self._prefiller(tried)
            if lease is None:
                break
            with lease as prefiller:
                attempt = await self._reserved(Attempt(number, prefiller))
                if attempt is None:
                    break
                if await self._succeeds(attempt):
                    return attempt
            tried.add(prefiller)
        return None

    async def _prefiller(self, tried: set[Worker]) -> Lease | None:
        pool = self.services.prefill
        if not [worker for worker in pool.usable() if worker not in tried]:
            return None
        choose = self.services.strategy.choose
        demand = Demand(
            Length.LONG,
            pages=self.services.transport.pages(self.request, self.tokens),
            choose=lambda candidates: choose(self.prompt, candidates),
            avoid=frozenset(tried),
        )
        admitted = self.timeline.has("admitted")
        try:
            lease = await pool.acquire(demand, admitted=admitted)
        except Failure as failure:
            if failure.code == "no_prefill_worker":
                return None
            raise
        if not admitted:
            self.timeline.mark("admitted")
        return lease

    async def _reserved(self, attempt: Attempt) -> Attempt | None:
        """Reserve the prompt's pages at the least loaded decoder, where the transport needs that."""
        transport = self.services.transport
        if not transport.reserves_pages:
            return attempt
        demand = Demand(Length.PAGES, slots=0, pages=transport.pages(self.request, self.tokens))
        try:
            reservation = await self.services.decode.acquire(demand, admitted=True)
        except Failure as failure:
            if failure.code != "queue_timeout":
                raise
            self.why_not = "pd_buffer_full"
            return None
        attempt.held.callback(reservation.release)
        attempt.decoder = reservation.worker
        return attempt

    async def _succeeds(self, attempt: Attempt) -> bool:
        metrics, prefiller = self.services.metrics, attempt.prefiller
        self.open.append(attempt)
        self.timeline.mark("prefill_start")
        try:
            with self.interruption.undisturbed():
                attempt.params = await self.services.transport.hand_over(
                    lambda params: self._send(prefiller, params), attempt
                )
        except Rejected:
            self.close(attempt)
            raise
        except WorkerFailure as failure:
            prefiller.breaker.fail()
            metrics.worker_failed(prefiller, failure.kind)
            _log.warning("prefill failed", extra=self._failed(prefiller, failure))
            self.why_not = failure.kind if failure.kind == "no_kv" else "prefill_failed"
            self.interruption.check()
            return False
        prefiller.breaker.succeed()
        self.services.strategy.remember(self.prompt, prefiller)
        self.timeline.mark("handed_over")
        return True

    async def _send(self, prefiller: Worker, params: KvTransferParams) -> Answer:
        request, limits = self.request, self.services.config.limits
        body = request.prefill_body(params)
        answer = await self.services.upstream.post(
            prefiller, request.path, body, self.headers, limits.prefill_timeout_s
        )
        self.timeline.mark("prefilled")
        if answer.status >= _CLIENT_ERROR:
            prefiller.breaker.succeed()
            raise Rejected(answer)
        return answer

    def close(self, attempt: Attempt) -> None:
        """Note that nothing of an attempt is left at any worker: a decode leg has fetched it."""
        self.open.remove(attempt)
        attempt.held.close()

    async def settle(self) -> None:
        """Fetch, and throw away, what was handed over and never decoded: nothing else would free it."""
        await asyncio.gather(*map(self._settle, tuple(self.open)))

    async def _settle(self, attempt: Attempt) -> None:
        try:
            if attempt.params is not None:
                await self.services.transport.quiet(attempt)
                await self._release(attempt, attempt.params)
        finally:
            self.close(attempt)

    async def _release(self, attempt: Attempt, params: KvTransferParams) -> None:
        """Run a decode leg of one token. A decoder that restarted meanwhile computes it: no harm."""
        body = self.request.prefill_body(params)
        timeout_s = self.services.config.limits.prefill_timeout_s
        # What any decoder can pull is also freed by its prefiller, in time.
        for pause_s in _RELEASE_PAUSES_S if attempt.decoder else _RELEASE_PAUSES_S[:2]:
            await asyncio.sleep(pause_s)
            decoder = attempt.decoder or self.services.any_decoder()
            if decoder is None or decoder.gone:
                break
            try:
                answer = await self.services.upstream.post(
                    decoder, self.request.path, body, self.headers, timeout_s
                )
            except WorkerFailure as failure:
                _log.warning("release failed", extra=self._failed(decoder, failure))
            else:
                outcome = "released" if answer.status < _CLIENT_ERROR else "rejected"
                self.services.metrics.released(outcome)
                return
        self.services.metrics.released("lost")

    def _failed(self, worker: Worker, failure: WorkerFailure) -> dict[str, str]:
        return {"request_id": self.headers["X-Request-Id"], "worker": worker.name, "why": str(failure)}
