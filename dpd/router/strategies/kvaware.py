"""Send a prompt where most of its KV cache is, as the engines themselves report it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import zmq.asyncio

from dpd.router.openai_request import CHARACTERS_PER_TOKEN
from dpd.router.prompt import Prompt
from dpd.router.strategies.balance import Balance
from dpd.router.strategies.block_chain import BlockChain
from dpd.router.strategies.kv_blocks import BYTES_PER_BLOCK, KvBlocks
from dpd.router.strategies.kv_events import BlockRemoved, BlockStored, KvEvent
from dpd.router.strategies.kv_subscription import KvSubscription
from dpd.router.strategies.strategy import Strategy
from dpd.router.worker import Worker

_log = logging.getLogger("dpd.router.kv_events")


@dataclass(frozen=True, slots=True)
class _Followed:
    blocks: KvBlocks
    task: asyncio.Task[None]


class KvAware(Strategy):
    """Keep an index of each prefiller's cache, from the first time that it is a candidate.

    ``max_bytes`` bounds all indices together. A block that does not fit is not indexed, and the log says
    so once: an engine's cache is bounded itself, so more memory cures it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most_blocks = max_bytes // BYTES_PER_BLOCK
        self._context = zmq.asyncio.Context()
        self._followed: dict[Worker, _Followed] = {}
        self._balance = Balance()
        self._full = False

    def choose(self, prompt: Prompt, candidates: Sequence[Worker]) -> Worker:
        """Return the candidate with the least to compute, to finish and behind it.

        A prompt whose tokens are unknown matches nothing.
        """
        for worker in candidates:
            if worker not in self._followed:
                self._follow(worker)
        if prompt.token_ids is None:
            return self._balance.choose(dict.fromkeys(candidates, len(prompt.text) // CHARACTERS_PER_TOKEN))
        tokens = tuple(prompt.token_ids)
        sizes = {self._followed[worker].blocks.block_tokens for worker in candidates} - {0}
        chains = {size: BlockChain(tokens, size) for size in sizes}
        return self._balance.choose(
            {worker: len(tokens) - self._cached_tokens(worker, chains) for worker in candidates}
        )

    def _cached_tokens(self, worker: Worker, chains: dict[int, BlockChain]) -> int:
        blocks = self._followed[worker].blocks
        return blocks.cached_tokens(chains[blocks.block_tokens]) if blocks.block_tokens else 0

    def _follow(self, worker: Worker) -> None:
        blocks = KvBlocks()
        subscription = KvSubscription(self._context, worker.endpoint, partial(self._apply, blocks))
        task = asyncio.create_task(subscription.run())
        task.add_done_callback(partial(_report, worker.name))
        self._followed[worker] = _Followed(blocks, task)

    def _apply(self, blocks: KvBlocks, events: Sequence[KvEvent]) -> None:
        for event in events:
            if isinstance(event, BlockStored):
                blocks.store(event, self._room(len(event.block_hashes)))
            elif isinstance(event, BlockRemoved):
                blocks.remove(event)
            else:
                blocks.clear()

    def _room(self, wanted: int) -> int:
        room = self._most_blocks - sum(len(one.blocks) for one in self._followed.values())
        if wanted > room and not self._full:
            _log.warning(
                "KV index is full: raise routing.prefix_index_bytes", extra={"blocks": self._most_blocks}
            )
            self._full = True
        return min(wanted, room)

    def forget(self, worker: Worker) -> None:
        """Drop a worker's index and follow its events no longer, until it is a candidate again."""
        self._balance.forget(worker)
        followed = self._followed.pop(worker, None)
        if followed is not None:
            followed.task.cancel()

    async def close(self) -> None:
        """End every subscription."""
        tasks = [one.task for one in self._followed.values()]
        for worker in tuple(self._followed):
            self.forget(worker)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._context.destroy(linger=0)


def _report(worker: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("KV events are no longer followed", extra={"worker": worker}, exc_info=task.exception())
