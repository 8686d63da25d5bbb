"""Watch the EndpointSlices of two Services."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from contextlib import aclosing
from functools import partial
from typing import Final

import aiohttp
import msgspec

from dpd.router.config import KubernetesSource, RouterConfig
from dpd.router.discovery.cluster import Cluster
from dpd.router.discovery.endpoint_slice import Change, EndpointSlice
from dpd.router.discovery.kubernetes_api import ApiError, Gone, SlicesOfService
from dpd.router.discovery.source import Publish, endpoints_at
from dpd.router.worker import Role

_log = logging.getLogger("dpd.router.discovery")
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_SHORT_ROUND_S: Final = 1.0
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError, ApiError, msgspec.MsgspecError)


class EndpointSliceWatch:
    """Keep both roles' workers true to the ready endpoints of their Services.

    While the API server cannot be reached the last known workers stay.
    """

    def __init__(self, config: RouterConfig, kubernetes: KubernetesSource, cluster: Cluster) -> None:
        self._config = config
        self._kubernetes = kubernetes
        self._cluster = cluster

    async def run(self, publish: Publish) -> None:
        """Follow both Services."""
        services = {
            Role.PREFILL: self._kubernetes.prefill_service,
            Role.DECODE: self._kubernetes.decode_service,
        }

        async with self._cluster.session() as session, asyncio.TaskGroup() as group:
            for role, service in services.items():
                api = SlicesOfService(self._cluster, session, service)
                group.create_task(_Follower(api, partial(self._publish, publish, role)).run())

    def _publish(self, publish: Publish, role: Role, addresses: frozenset[str]) -> None:
        _log.info("workers changed", extra={"role": role, "addresses": sorted(addresses)})
        publish(role, endpoints_at(self._config, role, addresses, self._kubernetes.port))


class _Follower:
    """Follow one Service: list once, then watch from the version reached, through every lost connection."""

    def __init__(self, api: SlicesOfService, publish: Callable[[frozenset[str]], None]) -> None:
        self._api = api
        self._publish = publish
        self._slices: dict[str, EndpointSlice] = {}
        self._version = ""
        self._known: frozenset[str] | None = None
        self._failure = ""

    async def run(self) -> None:
        """Follow until cancelled; rounds that end at once come at growing intervals."""
        short_rounds = 0
        while True:
            began = time.monotonic()
            try:
                await self._follow()
            except Gone:
                self._version = ""
            except _FAILURES as error:
                self._failed(str(error) or type(error).__name__)
            short_rounds = 0 if time.monotonic() - began >= _SHORT_ROUND_S else short_rounds + 1
            await asyncio.sleep(_pause_s(short_rounds))

    async def _follow(self) -> None:
        if not self._version:
            listed = await self._api.list_all()
            self._slices = {one.metadata.name: one for one in listed.items}
            self._reached(listed.metadata.resource_version)
        async with aclosing(self._api.watch(self._version)) as changes:
            async for change in changes:
                self._apply(change)

    def _apply(self, change: Change) -> None:
        changed = change.object
        if change.type == "DELETED":
            self._slices.pop(changed.metadata.name, None)
        elif change.type != "BOOKMARK":
            self._slices[changed.metadata.name] = changed
        self._reached(changed.metadata.resource_version)

    def _reached(self, version: str) -> None:
        self._version = version
        if self._failure:
            _log.info("the API server answers again", extra={"service": self._api.service})
        self._failure = ""
        found = _addresses(self._slices.values())
        if found != self._known:
            self._known = found
            self._publish(found)

    def _failed(self, why: str) -> None:
        if why != self._failure:
            _log.warning("EndpointSlices not read", extra={"service": self._api.service, "why": why})
        self._failure = why


def _addresses(slices: Collection[EndpointSlice]) -> frozenset[str]:
    """Merge the slices of a Service. Of a dual-stack one IPv4 counts, or each pod would be two workers."""
    ipv4 = frozenset[str]().union(*(one.addresses() for one in slices if one.address_type == "IPv4"))
    return ipv4 or frozenset[str]().union(*(one.addresses() for one in slices))


def _pause_s(short_rounds: int) -> float:
    if not short_rounds:
        return 0.0
    longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (short_rounds - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads routers, guards nothing
