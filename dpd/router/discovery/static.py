"""Take the workers from the configuration."""

from __future__ import annotations

import asyncio

from dpd.router.config import RouterConfig
from dpd.router.discovery.source import Publish, to_endpoint
from dpd.router.worker import Role


class StaticSource:
    """Publish the entries of `workers.prefill` and `workers.decode`, once."""

    def __init__(self, config: RouterConfig) -> None:
        workers = config.workers
        self._endpoints = {
            Role.PREFILL: frozenset(to_endpoint(config, Role.PREFILL, entry) for entry in workers.prefill),
            Role.DECODE: frozenset(to_endpoint(config, Role.DECODE, entry) for entry in workers.decode),
        }

    async def run(self, publish: Publish) -> None:
        """Publish, then wait."""
        for role, endpoints in self._endpoints.items():
            publish(role, endpoints)
        await asyncio.Event().wait()
