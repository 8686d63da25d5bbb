"""Look up headless Services, whose names resolve to the addresses of their ready pods."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from dpd.router.config import DnsSource, RouterConfig
from dpd.router.discovery.source import Publish, endpoints_at
from dpd.router.worker import Role

_log = logging.getLogger("dpd.router.discovery")
_EMPTY_LOOKUPS: Final = 3
"""In a row, after which an empty answer is believed: a restarting DNS server gives some, too."""
_NO_ADDRESS: Final = (socket.EAI_NONAME, socket.EAI_NODATA)


class DnsLookups:
    """Resolve one name per role every ``interval_s``.

    A lookup that fails leaves the last answer as it is, for as long as lookups fail. An answer without
    addresses counts when it is the third in a row.
    """

    def __init__(self, config: RouterConfig, dns: DnsSource) -> None:
        self._config = config
        self._dns = dns

    async def run(self, publish: Publish) -> None:
        """Follow both names."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(Role.PREFILL, self._dns.prefill_name, publish))
            group.create_task(self._follow(Role.DECODE, self._dns.decode_name, publish))

    async def _follow(self, role: Role, name: str, publish: Publish) -> None:
        known: frozenset[str] = frozenset()
        empty_lookups = 0
        failing = False
        while True:
            try:
                found = await _addresses(name)
            except OSError as error:
                if not failing:
                    _log.warning("DNS lookup failed", extra={"dns_name": name, "why": str(error)})
                failing = True
            else:
                failing = False
                empty_lookups = 0 if found else empty_lookups + 1
                if found != known and (found or empty_lookups == _EMPTY_LOOKUPS):
                    known = found
                    _log.info("workers changed", extra={"role": role, "addresses": sorted(found)})
                    publish(role, endpoints_at(self._config, role, found, self._dns.port))
            await asyncio.sleep(self._dns.interval_s)


async def _addresses(name: str) -> frozenset[str]:
    """Return the addresses of ``name``, none where it has none; raises OSError where nobody can tell.

    Of a dual-stack name the IPv4 addresses count, or each pod would be two workers.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NO_ADDRESS:
            return frozenset()
        raise
    ipv4 = {str(address[0]) for family, *_, address in found if family is socket.AF_INET}
    return frozenset(ipv4 or {str(address[0]) for *_, address in found})
