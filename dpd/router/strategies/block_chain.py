"""Name each block of a prompt by a hash of it and of all that stand before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

ROOT: Final = 0


def link(parent: int, block: str | tuple[int, ...]) -> int:
    """Return the key of ``block`` after ``parent``. Keys are 64 bits, and valid inside this process."""
    return hash((parent, block))


class BlockChain:
    """Give the keys of a prompt's full blocks of ``size`` characters or tokens; hash what is asked for."""

    def __init__(self, prompt: str | tuple[int, ...], size: int) -> None:
        self._prompt = prompt
        self._size = size
        self._keys: list[int] = []

    def __iter__(self) -> Iterator[int]:
        for number in range(len(self._prompt) // self._size):
            if number == len(self._keys):
                start = number * self._size
                parent = self._keys[-1] if self._keys else ROOT
                self._keys.append(link(parent, self._prompt[start : start + self._size]))
            yield self._keys[number]

    def matched(self, holds: Callable[[int], bool]) -> int:
        """Return the length, in characters or tokens, of the leading blocks that ``holds`` knows."""
        length = 0
        for key in self:
            if not holds(key):
                break
            length += self._size
        return length
