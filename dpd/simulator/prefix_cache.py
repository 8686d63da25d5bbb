"""Which prefixes the engine need not compute again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile


class PrefixCache:
    """Remember the content of the last ``blocks`` computed blocks, least recently used out first."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def hits(self, contents: Sequence[bytes]) -> int:
        """Return how many leading blocks are known."""
        return sum(1 for _ in takewhile(self._known.__contains__, contents))

    def remember(self, contents: Sequence[bytes]) -> None:
        """Put the blocks of a computed prompt in front."""
        for content in contents:
            self._known[content] = None
            self._known.move_to_end(content)
        while len(self._known) > self._blocks:
            self._known.popitem(last=False)
