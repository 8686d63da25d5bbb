"""Prompts that nobody has sent before, on either side of the routing threshold."""

from __future__ import annotations

import secrets
from typing import Final

from dpd.ops.verify.target import Target

# With the blank before it each has four characters and is at least one token. So N words count as N tokens
# for a router that divides characters by four, and as N or a few more for one that asks a tokenizer.
_WORDS: Final = (
    *("all", "and", "any", "are", "big", "but", "can", "day", "did", "end", "far", "few", "for", "get"),
    *("had", "has", "her", "him", "his", "how", "its", "let", "man", "may", "new", "not", "now", "old"),
    *("one", "our", "out", "put", "run", "saw", "say", "see", "set", "she", "six", "ten", "the", "two"),
    *("use", "was", "way", "who", "why", "yes", "yet", "you"),
)
_SHORT_WORDS: Final = 8
_LONG_WORDS: Final = 1024
"""Several of LMCache's chunks of 256 tokens, so that one missing chunk is a small part."""


def short_prompt() -> str:
    """Return a prompt under every threshold that makes sense."""
    return _words(_SHORT_WORDS)


def long_prompt(target: Target) -> str:
    """Return a prompt of twice the threshold, or halfway from it to the context length where that is less."""
    threshold = target.threshold_tokens
    return _words(min(max(2 * threshold, _LONG_WORDS), (threshold + target.max_model_len) // 2))


def longest_prompt(target: Target) -> str:
    """Return a prompt of three quarters of the context, which keeps a prefiller busy for long."""
    return _words(3 * target.max_model_len // 4)


def _words(count: int) -> str:
    """Return random words: no cache holds a prefix of them."""
    return " ".join(secrets.choice(_WORDS) for _ in range(count))
