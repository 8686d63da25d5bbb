"""Send a prompt where the longest part of it was prefilled before, without asking anybody."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from dpd.router.openai_request import CHARACTERS_PER_TOKEN
from dpd.router.prompt import Prompt
from dpd.router.strategies.balance import Balance
from dpd.router.strategies.block_chain import BlockChain
from dpd.router.strategies.strategy import Strategy
from dpd.router.worker import Worker

_BLOCK_CHARACTERS: Final = 512
BYTES_PER_BLOCK: Final = 288
"""At the worst fill of the hash table and while it grows; measured with tracemalloc on CPython 3.11."""


class PrefixAware(Strategy):
    """Index the prompts of the recent past by blocks of 512 characters, the least recently used ageing out.

    The index guesses what the engines' caches hold; ``max_bytes`` bounds it for all workers together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most_blocks = max_bytes // BYTES_PER_BLOCK
        # One table for all workers, so that the oldest block goes first, whoever has it: a block's key is
        # that of its chain, combined with its worker's salt.
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._salts: dict[Worker, int] = {}
        self._balance = Balance()

    def choose(self, prompt: Prompt, candidates: Sequence[Worker]) -> Worker:
        """Return the candidate with the least to compute, to finish and behind it."""
        chain = BlockChain(prompt.text, _BLOCK_CHARACTERS)
        matched = {worker: self._matched(chain, worker) for worker in candidates}
        return self._balance.choose(
            {
                worker: (len(prompt.text) - characters) // CHARACTERS_PER_TOKEN
                for worker, characters in matched.items()
            }
        )

    def _matched(self, chain: BlockChain, worker: Worker) -> int:
        salt = self._salts.get(worker)
        return 0 if salt is None else chain.matched(lambda key: key ^ salt in self._blocks)

    def remember(self, prompt: Prompt, worker: Worker) -> None:
        """Index the prompt; its beginning, which others share, ages out last."""
        if worker.gone:
            return
        salt = self._salts.setdefault(worker, secrets.randbits(63))
        for key in reversed(list(BlockChain(prompt.text, _BLOCK_CHARACTERS))):
            self._blocks[key ^ salt] = None
            self._blocks.move_to_end(key ^ salt)
        while len(self._blocks) > self._most_blocks:
            self._blocks.popitem(last=False)

    def forget(self, worker: Worker) -> None:
        """Lose the worker's salt, without which its blocks match nothing and age out."""
        self._salts.pop(worker, None)
        self._balance.forget(worker)
