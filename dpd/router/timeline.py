"""When each phase of a request began, for logs, metrics and traces."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timeline:
    """Note moments by name, in seconds since the request arrived. A later mark of a name replaces it."""

    started_s: float = field(default_factory=time.perf_counter)
    moments_s: dict[str, float] = field(default_factory=dict[str, float])

    def mark(self, moment: str) -> float:
        """Note that ``moment`` is now, and return it."""
        self.moments_s[moment] = elapsed_s = time.perf_counter() - self.started_s
        return elapsed_s

    def has(self, moment: str) -> bool:
        """Tell whether ``moment`` was."""
        return moment in self.moments_s

    def between_s(self, begin: str, end: str) -> float | None:
        """Return the seconds from one moment to another, None unless both were."""
        if begin not in self.moments_s or end not in self.moments_s:
            return None
        return self.moments_s[end] - self.moments_s[begin]
