"""The engine's steps: one timer, at which every running sequence puts out its next token.

One timer and no task switch per token keep a streamed token at a few microseconds, so that a benchmark of a
router on the same machine measures the router.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Track:
    frames: Sequence[bytes]
    write: Callable[[bytes], None]
    done: asyncio.Future[None]
    position: int = 0

    def ends(self) -> bool:
        self.write(self.frames[self.position])
        self.position += 1
        return self.position == len(self.frames)


class StepClock:
    """Play sequences at one frame per step of ``step_s``."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._tracks: dict[_Track, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    async def play(self, frames: Sequence[bytes], write: Callable[[bytes], None]) -> None:
        """Write one frame per step, until all are written."""
        if not frames:
            return
        loop = asyncio.get_running_loop()
        track = _Track(frames, write, loop.create_future())
        self._tracks[track] = None
        if self._timer is None:
            self._due = max(self._due, loop.time())
            self._arm(loop)
        try:
            await track.done
        finally:
            self._tracks.pop(track, None)

    def stall(self, seconds: float) -> None:
        """Delay the next step: the engine computes a prompt, and no sequence gets a token meanwhile."""
        self._due = max(self._due, asyncio.get_running_loop().time()) + seconds

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due += self._step_s
        self._timer = loop.call_at(self._due, self._step)

    def _step(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._step)
            return
        for track in [track for track in self._tracks if track.ends()]:
            del self._tracks[track]
            if not track.done.done():
                track.done.set_result(None)
        if self._tracks:
            # A step that came late is not made up for: a slow engine makes fewer steps.
            self._due = max(self._due, loop.time() - self._step_s)
            self._arm(loop)
