"""Clients that know every answer beforehand, and judge what they get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import TracebackType
from typing import Final, Literal, Self

import aiohttp

from dpd.ops.openai_client import Answer, Question, ask
from dpd.ops.verify.probe import NoAnswer, Probe
from dpd.ops.verify.prompts import longest_prompt, short_prompt

_CLIENTS: Final = 4
_THINK_S: Final = 1.0
"""Pause between two requests of a client: without it two cores have no time to start an engine again."""
_ANSWER_TOKENS: Final = 64
_BOUND_S: Final = 120.0
"""Longer than all waits of the router: for a slot, a prefiller, and a decoder that falls silent."""
_RETRY_S: Final = 0.2
_POLL_S: Final = 0.1

Verdict = Literal["identical", "clear error", "wrong"]


@dataclass(frozen=True, slots=True)
class Known:
    """Join a question and the text that a decoder alone gives."""

    question: Question
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say what one client got; ``why`` is empty where it is identical."""

    question: Question
    verdict: Verdict
    why: str


async def known_answers(probe: Probe) -> list[Known]:
    """Ask a decoder alone for answers to short and long prompts, chat and completions.

    Raises NoAnswer where it does not answer.
    """
    known: list[Known] = []
    for prompt, chat in product((short_prompt(), longest_prompt(probe.target)), (False, True)):
        question = Question(prompt, _ANSWER_TOKENS, chat=chat)
        answer = await probe.ask(question, probe.target.decoders[0].url)
        if not answer.complete:
            raise NoAnswer(answer.problem)
        known += [Known(replace(question, stream=stream), answer.text) for stream in (False, True)]
    return known


def judge(known: Known, answer: Answer) -> Outcome:
    """Demand the whole text; or a part of it, or nothing, and an error that says so."""
    if answer.complete and answer.text == known.text:
        return Outcome(known.question, "identical", "")
    if not known.text.startswith(answer.text) or answer.complete:
        return Outcome(known.question, "wrong", f"other text: {answer.text[:80]!r}, not {known.text[:80]!r}")
    if answer.error:
        return Outcome(known.question, "clear error", answer.problem)
    return Outcome(known.question, "wrong", f"{answer.problem}, after {len(answer.text)} characters")


class Load:
    """Ask from ``async with Load(...) as load`` until the block ends, and finish what runs then.

    ``outcomes`` grows meanwhile.
    """

    def __init__(self, url: str, model: str, known: Sequence[Known]) -> None:
        self._url, self._model, self._known = url, model, known
        self._ending = False
        self._streaming = asyncio.Event()
        self.outcomes: list[Outcome] = []

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(connector=connector)
        self._clients = [asyncio.create_task(self._client(number)) for number in range(_CLIENTS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        for client in self._clients if error else ():
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=error is not None)
        await self._session.close()

    async def stream_runs(self) -> None:
        """Wait until text of some stream comes."""
        self._streaming.clear()
        await self._streaming.wait()

    async def go_on(self) -> None:
        """Wait until every client, on the average, has asked two more questions."""
        enough = len(self.outcomes) + 2 * _CLIENTS
        while len(self.outcomes) < enough:
            await asyncio.sleep(_POLL_S)

    async def _client(self, number: int) -> None:
        while not self._ending:
            known = self._known[number % len(self._known)]
            number += 1
            self.outcomes.append(judge(known, await self._ask(known.question)))
            await asyncio.sleep(_THINK_S)

    async def _ask(self, question: Question) -> Answer:
        """Return the answer; a connection that nobody takes is tried again, as every client does."""
        deadline = time.monotonic() + _BOUND_S
        while True:
            answer = await ask(
                self._session,
                self._url,
                self._model,
                question,
                timeout_s=_BOUND_S,
                on_text=self._streaming.set,
            )
            if not answer.refused or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(_RETRY_S)
