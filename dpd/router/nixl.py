"""Hand over with vLLM's NixlConnector: the decoder pulls what the prefiller names in its answer."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from dpd.router.failure import WorkerFailure
from dpd.router.openai_request import OpenAiRequest
from dpd.router.transport import Attempt, KvTransferParams, Send

_TOKENS_PER_PAGE: Final = 256
"""Of the load by which decoders are compared, alone."""
_ASK: Final[KvTransferParams] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class _Answer(msgspec.Struct):
    kv_transfer_params: Any = None


_decoder = msgspec.json.Decoder(_Answer)


class NixlTransport:
    """Speak the handshake of NixlConnector.

    The prefiller keeps the blocks until the decoder has pulled them, or for VLLM_NIXL_ABORT_REQUEST_TIMEOUT.
    """

    reserves_pages = False

    def pages(self, request: OpenAiRequest, tokens: int) -> int:
        """Return the prompt in units of 256 tokens."""
        return -(-max(1, tokens) // _TOKENS_PER_PAGE)

    async def hand_over(self, send: Send, attempt: Attempt) -> KvTransferParams:
        """Ask for a remote decode; an answer without parameters has no KV cache to offer."""
        answer = await send(_ASK)
        try:
            params = _decoder.decode(answer.body).kv_transfer_params
        except msgspec.MsgspecError as error:
            raise WorkerFailure(
                attempt.prefiller.name, "malformed", f"answered what is not JSON: {error}"
            ) from None
        if not isinstance(params, dict) or params.get("do_remote_prefill") is not True:
            detail = "prefilled without handing over its KV cache: is --kv-transfer-config set?"
            raise WorkerFailure(attempt.prefiller.name, "no_kv", detail)
        attempt.params = cast("dict[str, Any]", params)
        return attempt.params

    async def quiet(self, attempt: Attempt) -> None:
        """Return at once: decoders read, and nobody writes."""

    def without_kv(self) -> KvTransferParams | None:
        """Return None: a body without parameters fetches nothing."""
        return None
