"""End an exchange from outside, but not amid what would leave something behind at a worker."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType

from dpd.router.scope import Scope


class Interruption:
    """Leave the ``with`` block with the reason given to ``interrupt``; the first reason counts.

    A block of ``undisturbed`` inside it runs to its end first.
    """

    def __init__(self) -> None:
        self._scope = Scope()
        self._reason: Exception | None = None
        self.waits = False
        """Whether an interruption would wait for the end of an undisturbed block."""

    def __enter__(self) -> Interruption:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, error, traceback)

    def interrupt(self, reason: Exception) -> None:
        """End the block; called from outside its task."""
        self._reason = self._reason or reason
        if not self.waits:
            self._scope.end(self._reason)

    def check(self) -> None:
        """Raise the reason if there is one: whatever would come next is for nobody."""
        if self._reason is not None:
            raise self._reason

    @contextmanager
    def undisturbed(self) -> Generator[None]:
        """Let no interruption into the block; raise its reason before or after it."""
        self.check()
        self.waits = True
        try:
            yield
        finally:
            self.waits = False
        self.check()
