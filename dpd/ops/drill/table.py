"""The results of drills as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpd.ops.drill.run import Drilled

_HEAD: Final = ("drill", "requests", "identical", "clear errors", "wrong", "recovered after")


def table_lines(results: Sequence[Drilled]) -> list[str]:
    """Return a head, and one line a drill."""
    rows = [_HEAD, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]


def _cells(result: Drilled) -> tuple[str, ...]:
    counts = (result.count(verdict) for verdict in ("identical", "clear error", "wrong"))
    seconds = result.recovered_after_s
    return (
        result.drill.name,
        str(len(result.outcomes)),
        *map(str, counts),
        "never" if seconds is None else f"{seconds:.1f} s",
    )
