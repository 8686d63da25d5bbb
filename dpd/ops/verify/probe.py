"""Ask a target: questions through its router and of its workers, and the counters of all of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from dpd.ops.openai_client import Answer, Question, ask
from dpd.ops.verify.counters import ENDED, REQUESTS, TRANSFERS, Counters, add, parse_counters
from dpd.ops.verify.target import Target, TargetWorker

_ANSWER_TIMEOUT_S: Final = 60.0
_STATE_TIMEOUT_S: Final = 3.0
_SETTLE_S: Final = 3.0
"""Engines and router count a little after the answer's last byte."""
_POLL_S: Final = 0.1
_QUIET_ATTEMPTS: Final = 3


class NoAnswer(Exception):
    """Say why something did not tell its state."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Hold one answer, and how far counters rose meanwhile, summed over the workers of a role.

    Not ``quiet``: the router counted other requests too, so a rise is not this request's alone.
    """

    question: Question
    answer: Answer
    router: Counters
    prefill: Counters
    decode: Counters

    @property
    def quiet(self) -> bool:
        """Tell whether this was the only request."""
        return self.router.total(REQUESTS) <= 1

    @property
    def path(self) -> str:
        """Return the path that the router says it took; empty where it says none."""
        return self.answer.headers.get("x-dpd-path", "")

    @property
    def disaggregated(self) -> bool:
        """Tell whether the router says that a prefiller computed the prompt."""
        return self.path == "disaggregated"

    def settled(self, transport: str) -> bool:
        """Tell whether everything that must count this request has done so."""
        counted = [self.router.total(REQUESTS), self.decode.total(ENDED)]
        if self.disaggregated:
            counted.append(self.prefill.total(ENDED))
            if transport == "nixl":
                counted.append(self.decode.total(TRANSFERS))
        return min(counted) >= 1


class Probe:
    """Ask from ``async with Probe(target) as probe`` until the block ends."""

    def __init__(self, target: Target) -> None:
        self.target = target

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, question: Question, url: str | None = None) -> Answer:
        """Return the answer of the router, or of the worker at ``url``."""
        target = self.target
        return await ask(
            self._session, url or target.router_url, target.model, question, timeout_s=_ANSWER_TIMEOUT_S
        )

    async def state(self, url: str) -> Any:
        """Return a JSON document; raises NoAnswer."""
        text = await self.text(url)
        try:
            return json.loads(text)
        except ValueError:
            raise NoAnswer(f"{url} answers what is no JSON") from None

    async def observe(self, question: Callable[[], Question]) -> Observation:
        """Ask, and watch every counter; with another question again where others were asking too.

        Raises NoAnswer where those of the router cannot be read.
        """
        observation = await self._observe(question())
        for _ in range(_QUIET_ATTEMPTS - 1):
            if not observation.quiet:
                observation = await self._observe(question())
        return observation

    async def _observe(self, question: Question) -> Observation:
        before = await self._counters()
        answer = await self.ask(question)
        deadline = time.monotonic() + _SETTLE_S
        while True:
            after = await self._counters()
            rises = [now.since(then) for now, then in zip(after, before, strict=True)]
            observation = Observation(question, answer, *rises)
            if observation.settled(self.target.transport) or time.monotonic() > deadline:
                return observation
            await asyncio.sleep(_POLL_S)

    async def _counters(self) -> tuple[Counters, Counters, Counters]:
        """Return those of the router, of all prefillers and of all decoders."""
        target = self.target
        router = parse_counters(await self.text(f"{target.router_url}/metrics"))
        return router, await self._sums(target.of_role("prefill")), await self._sums(target.decoders)

    async def _sums(self, workers: Iterable[TargetWorker]) -> Counters:
        return add(await asyncio.gather(*(self._worker_counters(worker) for worker in workers)))

    async def _worker_counters(self, worker: TargetWorker) -> Counters:
        """Return none of a worker that does not answer: it has counted nothing that anybody can see."""
        try:
            return parse_counters(await self.text(f"{worker.url}/metrics"))
        except NoAnswer:
            return Counters({})

    async def text(self, url: str) -> str:
        """Return what a GET answers; raises NoAnswer."""
        timeout = aiohttp.ClientTimeout(total=_STATE_TIMEOUT_S)
        try:
            async with self._session.get(url, timeout=timeout) as response:
                if not response.ok:
                    raise NoAnswer(f"{url} answers {response.status}")
                return await response.text()
        except TimeoutError:
            raise NoAnswer(f"{url} does not answer within {_STATE_TIMEOUT_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"{url}: {error}") from None
