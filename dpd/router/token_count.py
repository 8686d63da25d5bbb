"""Count the tokens of a prompt, as closely as the configuration asks for."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from dpd.router.failure import WorkerFailure
from dpd.router.openai_request import OpenAiRequest
from dpd.router.prompt import Prompt
from dpd.router.services import Services

_log = logging.getLogger("dpd.router.tokens")
_TOKENIZE_TIMEOUT_S = 5.0
_OK = 200


class _Tokens(msgspec.Struct):
    tokens: list[int]


_decoder = msgspec.json.Decoder(_Tokens)


async def count_tokens(services: Services, request: OpenAiRequest, session: str) -> tuple[int, Prompt, int]:
    """Return the tokens to route by, the prompt, and the tokens to reserve room for.

    A prompt with fewer bytes than the threshold has fewer tokens too, and is not counted. Where the
    tokenizer cannot be asked, the estimate by characters decides.
    """
    routing = services.config.routing
    estimate = request.estimated_tokens()
    exact = routing.count == "exact" or routing.strategy == "kvaware"
    if exact and len(request.raw) >= routing.threshold_tokens:
        ids = request.token_ids or await _tokenize(services, request)
        if ids is not None:
            return len(ids), Prompt(request.text(), session, ids), len(ids)
    text = request.text() if estimate >= routing.threshold_tokens else ""
    return estimate, Prompt(text, session), request.most_tokens()


async def _tokenize(services: Services, request: OpenAiRequest) -> list[int] | None:
    """Ask a decoder, which applies the chat template too. It reads the client's own body."""
    decoder = services.any_decoder()
    if decoder is None:
        return None
    try:
        answer = await services.upstream.forward(
            decoder, "POST", "/tokenize", request.raw, _TOKENIZE_TIMEOUT_S
        )
        return _decoder.decode(answer.body).tokens if answer.status == _OK else None
    except (WorkerFailure, msgspec.MsgspecError) as error:
        details: dict[str, Any] = {"worker": decoder.name, "why": str(error)}
        _log.warning("tokens not counted, estimated by characters", extra=details)
        return None
