"""What every way of finding workers has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from dpd.router.addresses import Port
from dpd.router.config import RouterConfig, WorkerEntry
from dpd.router.worker import Endpoint, Role

Publish = Callable[[Role, frozenset[Endpoint]], None]
"""Take over the whole set of workers of one role."""


class Source(Protocol):
    """Find workers."""

    async def run(self, publish: Publish) -> None:
        """Publish the workers of a role whenever they changed, until cancelled.

        Nothing is published before something is known, and what is known stays where the source fails.
        """
        ...


def to_endpoint(config: RouterConfig, role: Role, entry: WorkerEntry) -> Endpoint:
    """Complete an entry with the ports that all workers of its role share."""
    if role is Role.DECODE:
        shared = config.lmcache
        return Endpoint(
            entry.url,
            entry.receiver_host or "",
            entry.receiver_init_ports or (shared.receiver_init_ports if shared else ()),
            entry.receiver_alloc_ports or (shared.receiver_alloc_ports if shared else ()),
        )
    return Endpoint(
        entry.url,
        kv_events=entry.kv_events or _address(entry.url, config.workers.kv_events_port),
        kv_events_replay=entry.kv_events_replay or _address(entry.url, config.workers.kv_events_replay_port),
    )


def _address(url: str, port: Port | None) -> str:
    if port is None:
        return ""
    return f"tcp://{in_url(urlsplit(url).hostname or '')}:{port}"


def in_url(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def endpoints_at(
    config: RouterConfig, role: Role, addresses: frozenset[str], port: int
) -> frozenset[Endpoint]:
    """Return the workers of one role that listen on one port of ``addresses``."""
    return frozenset(
        to_endpoint(config, role, WorkerEntry(url=f"http://{in_url(address)}:{port}"))
        for address in addresses
    )
