"""What the strategies see of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold the prompt's characters, in the order in which a chat template puts them.

    ``session`` is the session's name, empty where the client gave none. ``token_ids`` are known only where
    tokens are counted exactly.
    """

    text: str
    session: str = ""
    token_ids: Sequence[int] | None = None
