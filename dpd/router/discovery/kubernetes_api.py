"""Read EndpointSlices from the Kubernetes API: the list, and the stream of what changes after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from dpd.router.discovery.cluster import Cluster
from dpd.router.discovery.endpoint_slice import Change, SliceList

_LIST_TIMEOUT_S: Final = 30
_WATCH_S: Final = 60
"""After which the server ends a watch: as long as a connection that broke in silence stays unnoticed."""
_WATCH_MARGIN_S: Final = 15

_lists = msgspec.json.Decoder(SliceList)
_changes = msgspec.json.Decoder(Change)


class Gone(Exception):
    """Say that the resource version is too old to watch from: 410."""


class ApiError(Exception):
    """Say that the API server refused, with which status and message."""


@dataclass(frozen=True, slots=True)
class SlicesOfService:
    """Read the EndpointSlices of one Service.

    Every method raises OSError, TimeoutError, aiohttp.ClientError, msgspec.MsgspecError or ApiError.
    """

    cluster: Cluster
    session: aiohttp.ClientSession
    service: str

    async def list_all(self) -> SliceList:
        """Return all slices."""
        timeout = aiohttp.ClientTimeout(total=_LIST_TIMEOUT_S)
        async with self._get({}, timeout) as response:
            return _lists.decode(await response.read())

    async def watch(self, resource_version: str) -> AsyncGenerator[Change]:
        """Yield what changed after ``resource_version`` until the server ends the watch; raises Gone."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_S),
        }
        timeout = aiohttp.ClientTimeout(total=_WATCH_S + _WATCH_MARGIN_S)
        async with self._get(query, timeout) as response:
            async for line in _lines(response):
                change = _changes.decode(line)
                if change.type == "ERROR":
                    raise _error(change.object.code, change.object.message)
                yield change

    @asynccontextmanager
    async def _get(
        self, query: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        url = (
            f"{self.cluster.url}/apis/discovery.k8s.io/v1/namespaces/{self.cluster.namespace}/endpointslices"
        )
        query = {"labelSelector": f"kubernetes.io/service-name={self.service}", **query}
        headers = self.cluster.headers()
        async with self.session.get(
            url, params=query, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            if response.status != HTTPStatus.OK:
                raise _error(response.status, (await response.read())[:500].decode(errors="replace"))
            yield response


def _error(status: int, message: str) -> Gone | ApiError:
    if status == HTTPStatus.GONE:
        return Gone(message)
    hint = ""
    if status == HTTPStatus.FORBIDDEN:
        hint = "; the router's service account needs get, list and watch on endpointslices.discovery.k8s.io"
    return ApiError(f"the API server answered {status}: {message}{hint}")


async def _lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Split the body at line ends. aiohttp's own reader refuses lines over 128 KiB; a slice may be longer."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
