"""Read of a request what the router must know, and derive the bodies of its legs.

Bodies are never serialised again: a leg's own keys are appended to the client's bytes. A key that stands
twice counts the last time, in Python's json and in pydantic's parser, which are what workers read with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from dpd.router.failure import Failure

CHAT_PATH: Final = "/v1/chat/completions"
COMPLETIONS_PATH: Final = "/v1/completions"
CHARACTERS_PER_TOKEN: Final = 4
# Byte-level tokenizers seldom use fewer than three bytes a token, in English as in Chinese. Too high an
# estimate only waits longer for pages; one too low would overrun the decoder's buffer.
_BYTES_PER_TOKEN_AT_LEAST: Final = 3


class _Fields(msgspec.Struct):
    """Name the keys that decide; every other key passes through unread."""

    messages: Any = None
    prompt: Any = None
    tools: Any = None
    stream: Any = None
    user: Any = None
    n: Any = None
    best_of: Any = None
    echo: Any = None
    logprobs: Any = None
    prompt_logprobs: Any = None
    use_beam_search: Any = None
    prompt_embeds: Any = None
    truncate_prompt_tokens: Any = None
    kv_transfer_params: Any = None
    vllm_xargs: Any = None


_decoder = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, slots=True)
class OpenAiRequest:
    """Hold one completion request: the client's bytes, and what was read of them.

    ``token_ids`` are the prompt where the client sent it as such.
    """

    path: str
    raw: bytes
    fields: _Fields
    token_ids: list[int] | None

    @property
    def stream(self) -> bool:
        """Tell whether the client wants server-sent events."""
        return self.fields.stream is True

    @property
    def user(self) -> str:
        """Return OpenAI's `user`, empty where there is none."""
        return self.fields.user if isinstance(self.fields.user, str) else ""

    def characters(self) -> int:
        """Return the characters of the prompt, without roles and template."""
        return sum(len(text) for _, text in self._texts())

    def estimated_tokens(self) -> int:
        """Return a quarter of the prompt's characters, or the number of token ids where it has those."""
        ids = self.token_ids
        return len(ids) if ids is not None else self.characters() // CHARACTERS_PER_TOKEN

    def most_tokens(self) -> int:
        """Return a cautious estimate for what must have room for the prompt."""
        ids = self.token_ids
        return len(ids) if ids is not None else len(self.raw) // _BYTES_PER_TOKEN_AT_LEAST + 1

    def text(self) -> str:
        """Return the prompt's characters in the order in which chat templates put them: tools first.

        Token ids stand for themselves, so that equal prefixes look equal.
        """
        ids = self.token_ids
        if ids is not None:
            return " ".join(map(str, ids))
        tools = [msgspec.json.encode(self.fields.tools).decode()] if self.fields.tools else []
        return "\n".join([*tools, *(f"{role}\n{text}" for role, text in self._texts())])

    def _texts(self) -> list[tuple[str, str]]:
        if self.path == COMPLETIONS_PATH:
            prompt = self.fields.prompt
            items: list[Any] = cast("list[Any]", prompt) if isinstance(prompt, list) else [prompt]
            return [("", item) for item in items if isinstance(item, str)]
        messages = self.fields.messages
        texts: list[tuple[str, str]] = []
        for message in cast("list[Any]", messages) if isinstance(messages, list) else []:
            if isinstance(message, dict):
                known = cast("Mapping[str, Any]", message)
                texts.append((str(known.get("role", "")), _content_text(known.get("content"))))
        return texts

    def why_undivided(self) -> str:
        """Say why the request must not be disaggregated; empty where it may be.

        One hand-over feeds one sequence: vLLM runs several prompts, and several choices of one prompt, as
        requests of their own, of which the first frees the handed-over blocks. Log probabilities of the
        prompt need a decoder that computes the prompt. A prompt that is cut to what ``max_tokens`` leaves
        (vllm/renderers/params.py) is another one at the prefiller, which has to answer one token.
        """
        fields = self.fields
        if not fields.prompt and not fields.messages:
            return "no_prompt"
        several = isinstance(fields.prompt, list) and self.token_ids is None
        if several or fields.prompt_embeds is not None:
            return "several_prompts"
        # vLLM reads "2" and 2.0 as 2, and "true" and 1 as true: only what surely says one choice does.
        one_choice = all(count in (None, 1, "1") for count in (fields.n, fields.best_of))
        if not one_choice or fields.use_beam_search not in (None, False):
            return "several_choices"
        echoes = fields.echo not in (None, False)
        if fields.prompt_logprobs is not None or (echoes and fields.logprobs is not None):
            return "prompt_logprobs"
        if fields.truncate_prompt_tokens is not None:
            return "truncated_prompt"
        return ""

    def prefill_body(self, kv_transfer_params: Mapping[str, Any]) -> bytes:
        """Return the body of the prefill leg: the client's own, for one output token and no stream."""
        return self._with(
            {
                **_ONE_TOKEN[self.path],
                "stream": False,
                "stream_options": None,
                "kv_transfer_params": kv_transfer_params,
            }
        )

    def decode_body(self, kv_transfer_params: Mapping[str, Any] | None) -> bytes:
        """Return the body of the decode leg: the client's own, and where the KV cache is."""
        return self._with({"kv_transfer_params": kv_transfer_params}) if kv_transfer_params else self.raw

    def _with(self, keys: Mapping[str, Any]) -> bytes:
        more = msgspec.json.encode(keys)
        return b"%b,%b" % (self.raw.rstrip()[:-1], more[1:])


_ONE_TOKEN: Final[Mapping[str, Mapping[str, Any]]] = {
    CHAT_PATH: {"max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 0, "n": 1},
    COMPLETIONS_PATH: {"max_tokens": 1, "min_tokens": 0, "n": 1},
}


def parse_request(path: str, raw: bytes) -> OpenAiRequest:
    """Read a request.

    Raises Failure (400) for what is not a JSON object, or sets `kv_transfer_params`: whoever sets it makes
    a decoder read from an address of their choice. vLLM looks for it in `vllm_xargs` too. Everything else
    is the worker's to judge.
    """
    try:
        fields = _decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise Failure(400, "malformed_json", f"the body is not a JSON object: {error}") from None
    except RecursionError:
        raise Failure(400, "malformed_json", "the body is nested too deeply") from None
    extra = cast("object", fields.vllm_xargs)
    if fields.kv_transfer_params is not None or (isinstance(extra, dict) and "kv_transfer_params" in extra):
        raise Failure(400, "reserved_key", "`kv_transfer_params` is set by the router: remove it")
    return OpenAiRequest(path, raw, fields, _token_ids(fields.prompt))


def _token_ids(prompt: Any) -> list[int] | None:
    if isinstance(prompt, list) and set(map(type, cast("list[Any]", prompt))) == {int}:
        return cast("list[int]", prompt)
    return None


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast("Mapping[str, Any]", part) for part in cast("list[Any]", content) if isinstance(part, dict)]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
