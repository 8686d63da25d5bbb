"""The PD buffer of one rank of an LMCache 0.4.3 decoder (storage_backend/pd_backend.py).

A page is known from its allocation on, before it is written. Each request that is told "already sent" adds a
reference, and nothing but a decode request's retrieval takes one away.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_UNWRITTEN = b"unwritten"


@dataclass(slots=True)
class _Page:
    index: int
    references: int = 1


class PdBuffer:
    """Hold the pages of one rank."""

    def __init__(self, pages: int) -> None:
        self._contents = [_UNWRITTEN] * pages
        self._free = deque(range(pages))
        self._pages: dict[str, _Page] = {}

    @property
    def used(self) -> int:
        """Return how many pages are taken."""
        return len(self._contents) - len(self._free)

    def __contains__(self, key: str) -> bool:
        return key in self._pages

    def pin(self, key: str) -> bool:
        """Add a reference to the page of ``key``, if there is one."""
        page = self._pages.get(key)
        if page is None:
            return False
        page.references += 1
        return True

    def allocate(self, key: str) -> int | None:
        """Return the index of a new page, None where no page is free."""
        if not self._free:
            return None
        index = self._free.popleft()
        self._contents[index] = _UNWRITTEN
        self._pages[key] = _Page(index)
        return index

    def write(self, index: int, content: bytes) -> None:
        """Write a page, whoever it belongs to by now, as RDMA does."""
        self._contents[index] = content

    def retrieve(self, key: str) -> bytes:
        """Return what the page holds, and take a reference away; the last one frees it."""
        page = self._pages[key]
        page.references -= 1
        if page.references == 0:
            del self._pages[key]
            self._free.append(page.index)
        return self._contents[page.index]
