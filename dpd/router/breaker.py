"""Take a worker out of use after failures in a row, and let one request try it again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_LONGEST_PAUSE = 16
"""In multiples of the first pause, which doubles with each failed trial."""


@dataclass(slots=True)
class Breaker:
    """Count failures in a row; open after ``failures`` of them.

    While open, nothing passes for ``pause_s``, then one trial at a time. A success closes it.
    """

    failures: int
    pause_s: float
    clock: Callable[[], float] = time.monotonic
    _in_a_row: int = 0
    _pauses: int = 0
    _open_until: float = 0.0
    _trial: bool = field(default=False)

    @property
    def open(self) -> bool:
        """Tell whether the worker is out of use, or on trial."""
        return self._pauses > 0

    def allows(self) -> bool:
        """Tell whether a request may use the worker now."""
        return not self.open or (not self._trial and self.clock() >= self._open_until)

    def retry_in_s(self) -> float:
        """Return the seconds until a trial may begin; 0 where requests pass."""
        return max(0.0, self._open_until - self.clock()) if self.open else 0.0

    def begin(self) -> bool:
        """Note that a request uses the worker, and tell whether it is a trial."""
        trial = self.open and self.allows()
        self._trial = self._trial or trial
        return trial

    def succeed(self) -> None:
        """Close."""
        self._in_a_row = self._pauses = 0
        self._trial = False

    def fail(self) -> None:
        """Count a failure. What fails during the pause began before it, and says nothing new."""
        if self.retry_in_s() > 0:
            return
        self._in_a_row += 1
        if self.open or self._in_a_row >= self.failures:
            self._open_until = self.clock() + self.pause_s * min(2**self._pauses, _LONGEST_PAUSE)
            self._pauses += 1
        self._trial = False

    def end_trial(self) -> None:
        """Let the next request try the worker, whatever becomes of this one."""
        self._trial = False
