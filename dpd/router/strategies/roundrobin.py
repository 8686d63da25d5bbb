"""Let the prefillers take turns."""

from __future__ import annotations

from collections.abc import Sequence

from dpd.router.prompt import Prompt
from dpd.router.strategies.strategy import Strategy
from dpd.router.worker import Worker


class RoundRobin(Strategy):
    """Go round the workers in the order of their names; one that is full misses its turn."""

    def __init__(self) -> None:
        self._last = ""

    def choose(self, prompt: Prompt, candidates: Sequence[Worker]) -> Worker:
        """Return the candidate after the one that was chosen last."""
        worker = min(candidates, key=lambda one: (one.name <= self._last, one.name))
        self._last = worker.name
        return worker
