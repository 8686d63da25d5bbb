"""Prompts as the simulated model sees them: one token a word, and what a KV page of it would hold."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from zlib import crc32

_VOCABULARY = 128_256
"""Tokens of Llama 3's tokenizer, so that ids look like its ids."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold one prompt. Two prompts are the same where their token ids are; ``text`` is for `echo`."""

    text: str
    token_ids: Sequence[int]

    def contents(self, chunk_tokens: int) -> list[bytes]:
        """Return what each KV page of the prompt holds: a digest of all tokens up to the page's end.

        Attention makes the KV cache of a token depend on every token before it, hence the chain.
        """
        contents: list[bytes] = []
        content = b""
        for start in range(0, len(self.token_ids), chunk_tokens):
            ids = array("Q", self.token_ids[start : start + chunk_tokens])
            content = blake2b(content + ids.tobytes(), digest_size=16).digest()
            contents.append(content)
        return contents


def tokenize(text: str) -> list[int]:
    """Return one id per word."""
    return [crc32(word) % _VOCABULARY for word in text.encode().split()]


def text_prompt(text: str) -> Prompt:
    """Return the prompt of a text."""
    return Prompt(text, tokenize(text))


def token_prompt(token_ids: Sequence[int]) -> Prompt:
    """Return the prompt of token ids; they are not turned into words again."""
    return Prompt(" ".join(f"<{token}>" for token in token_ids), token_ids)


def render_chat(messages: Sequence[tuple[str, str]], tools: Sequence[Any]) -> str:
    """Return the text of a chat, tools first, as chat templates put it."""
    described = [f"<|tools|> {json.dumps(tools, sort_keys=True)}"] if tools else []
    said = [f"<|{role}|> {text}" for role, text in messages]
    return " \n".join([*described, *said, "<|assistant|>"])
