"""Whether the decoder got the long prompt's KV cache instead of computing it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dpd.finding import Finding
from dpd.ops.verify.check import Check, error
from dpd.ops.verify.counters import PROMPT_TOKENS, TRANSFERS
from dpd.ops.verify.probe import Observation

_TRANSFER_SECONDS: Final = "vllm:nixl_xfer_time_seconds_sum"
_BYTES: Final = "vllm:nixl_bytes_transferred_sum"
_FAILED: Final = "vllm:nixl_num_failed_transfers_total"
_LEFT_OVER_TOKENS: Final = {"nixl": 16, "lmcache": 256}
"""What a decoder may compute of a prompt that it was handed: one block of vLLM's on a GPU, or one chunk, of
which LMCache moves whole ones alone. With NIXL vLLM 0.32.0 on a CPU computed none."""


def check_kv_transfer(transport: str, seen: Observation) -> Check:
    """Demand that the decoder counted the prompt as received, computed none of it, and saw bytes move."""
    if not seen.disaggregated:
        return Check("kv_transfer", "the long prompt was not disaggregated", judged=False)
    findings = [*_source_findings(_LEFT_OVER_TOKENS[transport], seen)]
    if transport == "nixl":
        findings += _nixl_findings(seen)
    received = seen.decode.total(PROMPT_TOKENS, source="external_kv_transfer")
    return Check("kv_transfer", f"{received:.0f} tokens received{_moved(transport, seen)}", tuple(findings))


def _moved(transport: str, seen: Observation) -> str:
    if transport != "nixl":
        return ""
    milliseconds = 1000 * seen.decode.total(_TRANSFER_SECONDS)
    return f", {seen.decode.total(_BYTES) / 2**20:.1f} MiB in {milliseconds:.1f} ms"


def _source_findings(left_over_tokens: int, seen: Observation) -> Iterator[Finding]:
    tokens = seen.answer.prompt_tokens
    received = seen.decode.total(PROMPT_TOKENS, source="external_kv_transfer")
    computed = seen.decode.total(PROMPT_TOKENS, source="local_compute")
    if received < tokens - left_over_tokens:
        yield error(
            "VER006",
            "decode",
            f"received KV cache for {received:.0f} of the prompt's {tokens} tokens, computed {computed:.0f}",
            got=received,
            allowed=f"{tokens - left_over_tokens} or more",
            fix="see the decoder's log for its connector: where that failed, it recomputes without a word",
        )
    elif seen.quiet and computed > left_over_tokens:
        yield error(
            "VER006",
            "decode",
            f"received KV cache for {received:.0f} tokens, and computed {computed:.0f} all the same",
            got=computed,
            allowed=f"{left_over_tokens} or fewer",
            fix="see the decoder's log for failed loads of KV cache",
        )


def _nixl_findings(seen: Observation) -> Iterator[Finding]:
    transfers, moved = seen.decode.total(TRANSFERS), seen.decode.total(_BYTES)
    if transfers < 1 or moved <= 0:
        yield error(
            "VER007",
            "decode",
            f"NIXL counted {transfers:.0f} transfers and {moved:.0f} bytes",
            got=f"{transfers:.0f} transfers, {moved:.0f} bytes",
            allowed="1 transfer or more",
            fix="see both workers' logs for NIXL's handshake; VLLM_NIXL_SIDE_CHANNEL_HOST must be reachable",
        )
    failed = seen.decode.total(_FAILED)
    if failed > 0:
        yield error(
            "VER007",
            "decode",
            f"{failed:.0f} NIXL transfers failed",
            got=failed,
            allowed=0,
            fix="see the decoder's log; the prefiller may have restarted, or let the blocks go too early",
        )
