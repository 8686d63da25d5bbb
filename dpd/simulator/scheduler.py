"""Which sequences run, and which KV blocks they hold."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class Scheduler:
    """Admit sequences first come, first served, while there are slots and blocks.

    Blocks that a NIXL prefiller keeps for a decoder are taken though nothing runs with them.
    """

    def __init__(self, slots: int, blocks: int) -> None:
        self._slots = slots
        self._blocks = blocks
        self._free = deque(range(blocks))
        self._waiters: deque[tuple[int, asyncio.Future[list[int]]]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        """Return how many sequences wait."""
        return len(self._waiters)

    @property
    def used_blocks(self) -> int:
        """Return how many blocks are taken."""
        return self._blocks - len(self._free)

    @property
    def usage(self) -> float:
        """Return the share of blocks that is taken, 0 to 1."""
        return self.used_blocks / self._blocks

    async def admit(self, blocks: int) -> list[int]:
        """Wait for a slot and this many blocks; end with ``leave``."""
        if not self._waiters and self._fits(blocks):
            return self._take(blocks)
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        waiter = (blocks, future)
        self._waiters.append(waiter)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(future.result())
            else:
                with suppress(ValueError):  # passed over already
                    self._waiters.remove(waiter)
                self._wake()
            raise

    def leave(self, blocks: Iterable[int]) -> None:
        """Give back a slot and these blocks."""
        self.running -= 1
        self.free(blocks)

    def free(self, blocks: Iterable[int]) -> None:
        """Give back blocks alone."""
        self._free.extend(blocks)
        self._wake()

    def _fits(self, blocks: int) -> bool:
        return self.running < self._slots and blocks <= len(self._free)

    def _take(self, blocks: int) -> list[int]:
        self.running += 1
        return [self._free.popleft() for _ in range(blocks)]

    def _wake(self) -> None:
        while self._waiters and self._fits(self._waiters[0][0]):
            blocks, future = self._waiters.popleft()
            if not future.cancelled():
                future.set_result(self._take(blocks))
