"""Fixtures of the router's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dpd.router.breaker import Breaker
from dpd.router.worker import Endpoint, Role, Worker


@pytest.fixture
def new_worker() -> Callable[..., Worker]:
    """Return a maker of prefillers."""

    def new(name: str = "p:1", running: int = 0, **endpoint: str) -> Worker:
        return Worker(Role.PREFILL, Endpoint(f"http://{name}", **endpoint), Breaker(1, 1.0), running)

    return new


@pytest.fixture
def until() -> Callable[..., Any]:
    """Return a wait for a condition, which fails after 30 s."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)

    return wait
