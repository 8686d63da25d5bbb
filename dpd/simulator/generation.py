"""What the simulated model answers: a fixed function of the KV cache it read, and of the sampling.

An answer equals the colocated one exactly where the pages that the decoder read belong to the prompt and
were written. Pages of another request, or not yet written, give another text, as they do in reality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import shake_128
from typing import Final

_ONSETS: Final = ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z")
_RHYMES: Final = ("a", "e", "i", "o", "u", "an", "en", "in", "on", "un", "ar", "er", "or", "al", "el", "ol")
WORDS: Final = tuple(onset + rhyme for onset in _ONSETS for rhyme in _RHYMES)
"""One word per output token id, 0 to 255."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Hold what decides an answer besides the prompt."""

    tokens: int
    ends: str
    """`length` or `stop`: why the answer ends at ``tokens``."""
    stop: Sequence[str] = ()
    key: bytes = b""
    """Seed, temperature and such; empty for greedy decoding."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Hold one answer: its token ids, the piece of text that each adds, and why it ended."""

    token_ids: bytes
    pieces: Sequence[str]
    finish_reason: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """Return the whole text."""
        return "".join(self.pieces)


def generate(context: Sequence[bytes], sampling: Sampling) -> Generation:
    """Answer to a KV cache with these pages. A longer answer starts with the shorter one."""
    seed = shake_128(b"|".join(context) + b"/" + sampling.key)
    token_ids = seed.digest(sampling.tokens)
    pieces = [f" {WORDS[token]}" for token in token_ids]
    pieces[0] = pieces[0][1:]
    generation = Generation(token_ids, pieces, sampling.ends)
    return _stopped(generation, sampling.stop) if sampling.stop else generation


def _stopped(whole: Generation, stop: Sequence[str]) -> Generation:
    text = whole.text
    found = [(at, word) for word in stop if word and (at := text.find(word)) >= 0]
    if not found:
        return whole
    end, word = min(found)
    pieces: list[str] = []
    length = 0
    while length < end + len(word):
        piece = whole.pieces[len(pieces)]
        pieces.append(piece[: max(0, end - length)])
        length += len(piece)
    return Generation(whole.token_ids[: len(pieces)], pieces, "stop", word)
