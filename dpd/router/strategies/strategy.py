"""What every way of choosing a prefiller has in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpd.router.prompt import Prompt
from dpd.router.worker import Worker


class Strategy(Protocol):
    """Choose who prefills a prompt. Used inside a running event loop, by one task at a time."""

    def choose(self, prompt: Prompt, candidates: Sequence[Worker]) -> Worker:
        """Return one of ``candidates``, which are usable, have a free slot, and are at least one."""
        ...

    def remember(self, prompt: Prompt, worker: Worker) -> None:
        """Note that ``worker`` prefilled ``prompt``."""

    def forget(self, worker: Worker) -> None:
        """Note that ``worker`` left or restarted: its cache is empty."""

    async def close(self) -> None:
        """Release what the strategy holds."""
