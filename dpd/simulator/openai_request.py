"""Read the bodies of OpenAI's completion calls as vLLM does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import msgspec

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.errors import ApiError
from dpd.simulator.generation import Sampling
from dpd.simulator.prompt import Prompt, render_chat, text_prompt, token_prompt

_Count = Annotated[int, msgspec.Meta(ge=1)]
_TokenIds = list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]


class _ContentPart(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_ContentPart] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = False


class Body(msgspec.Struct):
    """Hold the keys that change an answer; every other key is accepted and has no effect."""

    model: str | None = None
    messages: list[_Message] | None = None
    prompt: Any = None
    tools: list[dict[str, Any]] | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    n: _Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool | None = False
    echo: bool | None = False
    logprobs: bool | int | None = None
    kv_transfer_params: dict[str, Any] | None = None


class TokenizeBody(msgspec.Struct):
    """Hold the body of /tokenize."""

    model: str | None = None
    messages: list[_Message] | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Hold one call. Each prompt is answered ``choices`` times, and each answer is a sequence of its own."""

    chat: bool
    body: Body
    sequences: Sequence[tuple[Prompt, Sampling]]

    @property
    def stream(self) -> bool:
        """Tell whether the answer comes as server-sent events."""
        return self.body.stream is True

    @property
    def include_usage(self) -> bool:
        """Tell whether the stream ends with an event about usage."""
        options = self.body.stream_options
        return options is not None and options.include_usage is True

    @property
    def logprobs(self) -> bool:
        """Tell whether log probabilities are asked for; `0` asks for those of the tokens alone."""
        return self.body.logprobs is not None and self.body.logprobs is not False

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of all prompts."""
        choices = self.body.n or 1
        return sum(len(prompt.token_ids) for prompt, _ in self.sequences) // choices


_bodies = msgspec.json.Decoder(Body)
_tokenize_bodies = msgspec.json.Decoder(TokenizeBody)


def read_completion(config: SimulatorConfig, raw: bytes, *, chat: bool) -> CompletionRequest:
    """Read a body. Raises ApiError (400, 404) for what vLLM refuses."""
    try:
        body = _bodies.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(400, f"[{{'type': 'json_invalid', 'msg': '{error}'}}]") from None
    check_model(config, body.model)
    prompts = [_chat_prompt(body)] if chat else _prompts(body.prompt)
    sequences = [
        (prompt, replace(sampling, key=_sampling_key(body, choice)))
        for prompt in prompts
        for sampling in [_sampling(config, body, prompt)]
        for choice in range(body.n or 1)
    ]
    return CompletionRequest(chat, body, sequences)


def read_tokenize(config: SimulatorConfig, raw: bytes) -> list[int]:
    """Return the token ids that a completion of this body would have."""
    try:
        body = _tokenize_bodies.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(400, f"[{{'type': 'json_invalid', 'msg': '{error}'}}]") from None
    check_model(config, body.model)
    if body.messages is None and body.prompt is not None:
        return list(text_prompt(body.prompt).token_ids)
    return list(_chat_prompt(body).token_ids)


def check_model(config: SimulatorConfig, model: str | None) -> None:
    """Raise ApiError (404) for another model; none stands for the one there is."""
    if model not in {None, config.model}:
        raise ApiError(404, f"The model `{model}` does not exist.", "model")


def _chat_prompt(body: Body | TokenizeBody) -> Prompt:
    if not body.messages:
        raise ApiError(400, "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]")
    said = [(message.role, _content_text(message.content)) for message in body.messages]
    return text_prompt(render_chat(said, body.tools or []))


def _content_text(content: str | list[_ContentPart] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def _prompts(value: Any) -> list[Prompt]:
    """Read a string, a list of token ids, a list of strings, or a list of lists of token ids."""
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    if several and isinstance(several[0], int):
        several = [several]
    try:
        prompts = [_prompt(one) for one in several]
    except msgspec.ValidationError as error:
        raise ApiError(400, f"prompt: {error}", "prompt") from None
    if not prompts or not all(prompt.token_ids for prompt in prompts):
        raise ApiError(400, "Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    return prompts


def _prompt(value: Any) -> Prompt:
    return text_prompt(value) if isinstance(value, str) else token_prompt(msgspec.convert(value, _TokenIds))


def _sampling(config: SimulatorConfig, body: Body, prompt: Prompt) -> Sampling:
    room = config.max_model_len - len(prompt.token_ids)
    if room < 1:
        raise ApiError(
            400,
            f"This model's maximum context length is {config.max_model_len} tokens. However, your prompt"
            f" contains {len(prompt.token_ids)} input tokens, which exceeds this limit even without any"
            " output tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )
    wanted = body.max_completion_tokens or body.max_tokens or room
    if wanted > room:
        raise ApiError(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context"
            f" length is {config.max_model_len} tokens and your request has {len(prompt.token_ids)} input"
            " tokens.",
            "max_tokens",
        )
    natural = max(config.natural_tokens, body.min_tokens or 0)
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if body.ignore_eos or wanted <= natural:
        return Sampling(wanted, "length", stop)
    return Sampling(natural, "stop", stop)


def _sampling_key(body: Body, choice: int) -> bytes:
    """Return what makes this choice differ from greedy decoding; vLLM's default temperature is 1."""
    temperature = 1.0 if body.temperature is None else body.temperature
    if temperature == 0:
        return b""
    return repr((temperature, body.top_p, body.top_k, body.seed, choice)).encode()
