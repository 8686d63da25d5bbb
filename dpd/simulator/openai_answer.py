"""Write answers in the shapes of OpenAI's API that vLLM 0.32 gives them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from dpd.simulator.generation import WORDS, Generation
from dpd.simulator.openai_request import CompletionRequest
from dpd.simulator.prompt import Prompt

DONE: Final = b"data: [DONE]\n\n"
_LOGPROB_STEP: Final = 1 / 256
_SPACED: Final = tuple(b'" %b"' % word.encode() for word in WORDS)


class OpenAiAnswer:
    """Shape the answers to one request."""

    def __init__(self, request: CompletionRequest, model: str) -> None:
        self._request = request
        self._chat = request.chat
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{uuid4().hex}",
            "object": "chat.completion" if request.chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(
        self, generations: Sequence[Generation], kv_transfer_params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the answer to a request that does not stream."""
        return {
            **self._head,
            "choices": [self._choice(index, one) for index, one in enumerate(generations)],
            "system_fingerprint": None,
            "usage": self._usage(generations),
            "kv_transfer_params": kv_transfer_params,
        }

    def events(self, index: int, generation: Generation) -> list[bytes]:
        """Return one entry per token: a server-sent event, the first with the opening one before it."""
        request = self._request
        opening = b""
        if self._chat:
            role = {"role": "assistant", "content": ""}
            opening = self._event({"index": index, "delta": role, "logprobs": None})
        elif request.body.echo:
            opening = self._event({"index": index, "text": self._prompt(index).text, "logprobs": None})
        plain = not request.logprobs and not request.body.stop
        body = self._plain_events(index, generation) if plain else []
        start = len(body)
        rest = range(start, len(generation.pieces))
        events = body + [self._token_event(index, generation, position) for position in rest]
        events[0] = opening + events[0]
        return events

    def usage_event(self, generations: Sequence[Generation]) -> bytes:
        """Return the event that `include_usage` asks for."""
        return self._sse({**self._stream_head(), "choices": [], "usage": self._usage(generations)})

    def _plain_events(self, index: int, generation: Generation) -> list[bytes]:
        """Return all events but the last, cut and joined as bytes: a benchmark pays for each of them."""
        if len(generation.pieces) == 1:
            return []
        first = self._token_event(index, generation, 0)
        piece = json.dumps(generation.pieces[0]).encode()
        before, _, after = first.rpartition(piece)
        return [first, *(before + _SPACED[token] + after for token in generation.token_ids[1:-1])]

    def _token_event(self, index: int, generation: Generation, position: int) -> bytes:
        last = position == len(generation.pieces) - 1
        piece = generation.pieces[position]
        choice: dict[str, Any] = {"index": index}
        choice |= {"delta": {"content": piece}} if self._chat else {"text": piece}
        choice["logprobs"] = self._logprobs(generation, position, position + 1)
        choice["finish_reason"] = generation.finish_reason if last else None
        if last or not self._chat:
            choice["stop_reason"] = generation.stop_reason if last else None
        return self._event(choice)

    def _event(self, choice: Mapping[str, Any]) -> bytes:
        return self._sse({**self._stream_head(), "choices": [{"finish_reason": None, **choice}]})

    def _sse(self, event: Mapping[str, Any]) -> bytes:
        return b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode()

    def _stream_head(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk"} if self._chat else self._head

    def _choice(self, index: int, generation: Generation) -> dict[str, Any]:
        ends = {"finish_reason": generation.finish_reason, "stop_reason": generation.stop_reason}
        logprobs = self._logprobs(generation, 0, len(generation.pieces))
        if self._chat:
            message = {"role": "assistant", "content": generation.text, "refusal": None}
            return {"index": index, "message": message, "logprobs": logprobs, **ends}
        echo = self._prompt(index).text + " " if self._request.body.echo else ""
        return {"index": index, "text": echo + generation.text, "logprobs": logprobs, **ends}

    def _prompt(self, index: int) -> Prompt:
        return self._request.sequences[index][0]

    def _usage(self, generations: Sequence[Generation]) -> dict[str, int]:
        prompt = self._request.prompt_tokens
        completion = sum(len(one.token_ids) for one in generations)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }

    def _logprobs(self, generation: Generation, start: int, end: int) -> dict[str, Any] | None:
        if not self._request.logprobs:
            return None
        pieces = generation.pieces[start:end]
        values = [-(token + 1) * _LOGPROB_STEP for token in generation.token_ids[start:end]]
        if not self._chat:
            offsets = [len("".join(generation.pieces[:position])) for position in range(start, end)]
            top = [{piece: value} for piece, value in zip(pieces, values, strict=True)]
            return {
                "text_offset": offsets,
                "token_logprobs": values,
                "tokens": pieces,
                "top_logprobs": top,
            }
        content = [
            {"token": piece, "logprob": value, "bytes": list(piece.encode()), "top_logprobs": []}
            for piece, value in zip(pieces, values, strict=True)
        ]
        return {"content": content}
