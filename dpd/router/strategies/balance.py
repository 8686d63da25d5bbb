"""Weigh the work that a cached prefix saves against the work that its worker has already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpd.router.worker import Worker

_TOKENS_PER_PAGE: Final = 256
"""Of a worker's load: LMCache's default chunk, and the unit of the NIXL transport."""
_TOKENS_PER_REQUEST: Final = 256
"""What a prompt costs its prefiller however much of it is cached: a scheduling step and the hand-over."""
_PATIENCE: Final = 4
"""How often the price of a copy the others must be behind by, before one of them makes it: copies then add a
quarter to the work at most, and a conversation does not wander while nothing else is asked."""


class Balance:
    """Give a prompt to the worker with the least of: tokens to compute, at work, and given before.

    A prefix draws prompts to the worker that has it until the others are far enough behind; then one of
    them computes it too, once, and both share what follows (the ski-rental rule). So a system prompt that
    all requests share spreads over all workers, a conversation stays where it is, and cold prompts go to
    whoever was given least.
    """

    def __init__(self) -> None:
        self._given_tokens: dict[Worker, int] = {}
        self._present: frozenset[Worker] = frozenset()

    def choose(self, missing_tokens: Mapping[Worker, int]) -> Worker:
        """Return the best of the workers, each mapped to the tokens that it would have to compute."""
        given = self._given_tokens
        self._level(frozenset(missing_tokens))

        def cost(worker: Worker) -> tuple[float, str]:
            waiting = worker.load * _TOKENS_PER_PAGE + given[worker] / _PATIENCE
            return missing_tokens[worker] + waiting, worker.name

        chosen = min(missing_tokens, key=cost)
        given[chosen] += missing_tokens[chosen] + _TOKENS_PER_REQUEST
        return chosen

    def _level(self, present: frozenset[Worker]) -> None:
        """Let those who come, or come back, start no lower than those who stayed: they would be flooded."""
        given = self._given_tokens
        lowest = min((given[worker] for worker in present & self._present), default=0)
        for worker in present - self._present:
            given[worker] = max(given.get(worker, 0), lowest)
        self._present = present

    def forget(self, worker: Worker) -> None:
        """Drop a worker."""
        self._given_tokens.pop(worker, None)
        self._present -= {worker}
