"""End what a task does, from outside, with an exception of one's choice."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import cast


class Scope:
    """Raise the reason given to ``end`` out of the ``with`` block, as asyncio.timeout does with TimeoutError.

    ``end`` must be called from outside the task, which is then waiting inside the block.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._reason: Exception | None = None

    def __enter__(self) -> Scope:
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._task, self._cancelling = task, task.cancelling()
        return self

    def end(self, reason: Exception) -> None:
        """Leave the block with ``reason``; the first reason counts, and a block that was left is left."""
        if self._task is not None and self._reason is None:
            self._reason = reason
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._reason is None or task is None:
            return
        # Somebody else may have cancelled the task too; then that is what it must see.
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise self._reason from None
