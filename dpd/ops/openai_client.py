"""Ask OpenAI's API one question, and tell exactly how the answer ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import aiohttp

_DONE: Final = b"[DONE]"
_DATA: Final = b"data: "
_ERROR_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Question:
    """Ask for the one answer that is certain: greedy, with a fixed seed."""

    prompt: str
    max_tokens: int
    chat: bool = False
    stream: bool = False

    @property
    def path(self) -> str:
        """Return the route."""
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    @property
    def form(self) -> str:
        """Name the form of the request, such as `chat, streamed`."""
        return ("chat" if self.chat else "completion") + (", streamed" if self.stream else "")

    def body(self, model: str) -> dict[str, object]:
        """Return the request's body."""
        prompt = self.prompt
        asked = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        shape = {"stream": True, "stream_options": {"include_usage": True}} if self.stream else {}
        return {
            "model": model,
            **asked,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "seed": 0,
            **shape,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what a client got.

    ``error`` is what the server said is wrong, in a body or as the last event of a stream. ``broken`` says
    how the answer ended as it should not. ``arrivals_s`` has the seconds from sending to each read with text.
    """

    status: int = 0
    """0: no answer began."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""
    error: str = ""
    broken: str = ""
    refused: bool = False
    """The request was never sent: nobody took the connection."""
    arrivals_s: tuple[float, ...] = ()

    @property
    def complete(self) -> bool:
        """Tell whether it is whole."""
        return bool(self.finish_reason) and not self.error and not self.broken

    @property
    def problem(self) -> str:
        """Say why it is not whole; empty where it is."""
        if self.error:
            return f"status {self.status}: {self.error}"
        return self.broken or ("" if self.finish_reason else "it ended early")


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    question: Question,
    *,
    timeout_s: float,
    on_text: Callable[[], None] = lambda: None,
) -> Answer:
    """Return the answer, whatever becomes of it; ``on_text`` is called at each read of a stream with text."""
    reading = _Reading(question.stream, on_text)
    try:
        async with session.post(
            url + question.path,
            json=question.body(model),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            reading.begin(response)
            async for chunk in response.content.iter_any():
                reading.add(chunk)
        return reading.end()
    except aiohttp.ClientConnectorError as error:
        return Answer(refused=True, broken=f"no connection: {error.strerror or error}")
    except TimeoutError:
        return replace(reading.so_far, broken=f"no end within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as error:
        return replace(reading.so_far, broken=f"the connection broke: {error or type(error).__name__}")


class _Reading:
    """Put an answer together, read by read."""

    def __init__(self, stream: bool, on_text: Callable[[], None]) -> None:
        self.so_far = Answer()
        self._stream = stream
        self._on_text = on_text
        self._sent = time.perf_counter()
        self._rest = b""
        self._done = False

    def begin(self, response: aiohttp.ClientResponse) -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._stream = self._stream and response.content_type == "text/event-stream"
        self.so_far = Answer(status=response.status, headers=headers)

    def add(self, chunk: bytes) -> None:
        *events, self._rest = (self._rest + chunk).split(b"\n\n") if self._stream else (self._rest + chunk,)
        before = self.so_far.text
        for event in events:
            if event.startswith(_DATA):
                self._event(event.removeprefix(_DATA))
        if self.so_far.text != before:
            arrivals_s = (*self.so_far.arrivals_s, time.perf_counter() - self._sent)
            self.so_far = replace(self.so_far, arrivals_s=arrivals_s)
            self._on_text()

    def end(self) -> Answer:
        if not self._stream:
            self._event(self._rest)
        elif not self._done and not self.so_far.error:
            return replace(self.so_far, broken="the stream ended without [DONE]")
        return self.so_far

    def _event(self, data: bytes) -> None:
        if data == _DONE:
            self._done = True
            return
        try:
            body: dict[str, Any] = json.loads(data)
        except ValueError:
            text = data[:_ERROR_CHARACTERS].decode(errors="replace")
            self.so_far = replace(self.so_far, broken=f"status {self.so_far.status} and no JSON: {text!r}")
            return
        if body.get("error"):
            message = str(body["error"].get("message", body["error"]))
            self.so_far = replace(self.so_far, error=message[:_ERROR_CHARACTERS])
            return
        self._take(body)

    def _take(self, body: Mapping[str, Any]) -> None:
        usage: Mapping[str, int] = body.get("usage") or {}
        counts = {key: usage[key] for key in ("prompt_tokens", "completion_tokens") if key in usage}
        self.so_far = replace(self.so_far, **counts)
        for choice in body.get("choices") or ():
            message: Mapping[str, Any] = choice.get("delta") or choice.get("message") or {}
            self.so_far = replace(
                self.so_far,
                text=self.so_far.text + (choice.get("text") or message.get("content") or ""),
                finish_reason=choice.get("finish_reason") or self.so_far.finish_reason,
            )
