"""One call of a completion: from its body to its answer, along the faults that are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.engine import Engine
from dpd.simulator.errors import ApiError, Died, EngineDead
from dpd.simulator.faults import FaultKind, Faults
from dpd.simulator.generation import Generation
from dpd.simulator.http_stream import HttpStream
from dpd.simulator.openai_answer import DONE, OpenAiAnswer
from dpd.simulator.openai_request import CompletionRequest, read_completion

_Frames = Callable[[int, Generation], list[bytes]]
_Ended = tuple[Generation, Mapping[str, Any] | None]
_Result = TypeVar("_Result")


class Completions:
    """Answer completion calls from one engine."""

    def __init__(self, config: SimulatorConfig, engine: Engine, faults: Faults) -> None:
        self._config = config
        self._engine = engine
        self._faults = faults

    async def answer(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        """Answer one call. Raises ApiError before anything was sent, and Died at any time."""
        raw = await http.read()
        if self._faults.take(FaultKind.HANG):
            await _until_client_goes()
        error = self._faults.take(FaultKind.ERROR_STATUS)
        if error:
            raise ApiError(error.status, "this error was asked for")
        request = read_completion(self._config, raw, chat=chat)
        answer = OpenAiAnswer(request, self._config.model)
        if request.stream:
            return await self._stream(request, answer, HttpStream(http, self._faults))
        return await self._whole(request, answer)

    async def _whole(self, request: CompletionRequest, answer: OpenAiAnswer) -> web.Response:
        def frames(_: int, generation: Generation) -> list[bytes]:
            return [b""] * len(generation.token_ids)

        ended = await self._run(request, frames, lambda _: None)
        # vLLM runs each prompt and choice as a request of its own, and keeps the parameters of one.
        body = answer.whole([generation for generation, _ in ended], ended[0][1])
        oversized = self._faults.take(FaultKind.OVERSIZED_CHUNKS)
        if oversized:
            body["padding"] = "x" * oversized.chunk_bytes
        data = msgspec.json.encode(body)
        if self._faults.take(FaultKind.MALFORMED_JSON):
            data = data[: len(data) // 2]
        return web.Response(body=data, content_type="application/json")

    async def _stream(
        self, request: CompletionRequest, answer: OpenAiAnswer, stream: HttpStream
    ) -> web.StreamResponse:
        if self._engine.death:
            raise EngineDead(self._engine.death)
        await stream.open()
        try:
            ended = await self._run(
                request,
                lambda index, generation: stream.frames(answer.events(index, generation)),
                stream.write,
            )
        except ApiError as error:
            stream.write_event(b"data: %b\n\n" % msgspec.json.encode(error.body()))
        else:
            if request.include_usage:
                stream.write_event(answer.usage_event([generation for generation, _ in ended]))
        stream.write_event(DONE)
        await stream.close()
        return stream.response

    async def _run(
        self, request: CompletionRequest, frames: _Frames, write: Callable[[bytes], None]
    ) -> Sequence[_Ended]:
        return await _all(
            [self._sequence(request, index, frames, write) for index in range(len(request.sequences))]
        )

    async def _sequence(
        self, request: CompletionRequest, index: int, frames: _Frames, write: Callable[[bytes], None]
    ) -> _Ended:
        prompt, sampling = request.sequences[index]
        params = request.body.kv_transfer_params or {}
        async with self._engine.prefilled(prompt, sampling, params) as job:
            played = frames(index, job.generation)
            stall = self._faults.take(FaultKind.STALL_MID_STREAM)
            cut = stall or self._faults.take(FaultKind.DIE_MID_STREAM)
            await self._engine.decode(job, played[: cut.after_chunks] if cut else played, write)
            if stall:
                await _until_client_goes()
            if cut:
                raise Died(cut)
            return job.generation, self._engine.finish(job)


async def _all(runs: Sequence[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Run side by side; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _until_client_goes() -> None:
    """Wait until the server cancels this request, because its connection ended."""
    await asyncio.Event().wait()
