"""Talk to workers. Every way in which that fails becomes a WorkerFailure that says how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp

from dpd.router.failure import WorkerFailure, WorkerRefused
from dpd.router.worker import Worker

# Below vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE (5 s), or a request would be sent into a connection that the
# worker is closing.
_KEEPALIVE_S = 3.0
_READ_BUFFER_BYTES = 2**16
_BUSY = 429
_ANSWERS = (2, 4)
"""Hundreds. No worker redirects: where it would lead to is no client's business."""
_UNAVAILABLE = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold a worker's whole answer."""

    status: int
    content_type: str
    body: bytes


class Upstream:
    """Send requests to workers over pooled connections."""

    def __init__(self, connect_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S, ttl_dns_cache=10)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            # Answers pass through as they are, and their encoding would not.
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            read_bufsize=_READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def get(self, url: str, timeout_s: float) -> int:
        """Return the status of a GET; raises WorkerFailure."""
        with _failures(url):
            timeout = aiohttp.ClientTimeout(total=timeout_s)
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                await response.read()
                return response.status

    async def forward(
        self, worker: Worker, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> Answer:
        """Return the whole answer of a call that is not a completion, whatever its status."""
        with worker.watched(), _failures(worker.name):
            timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._connect_timeout_s)
            async with self._session.request(
                method, worker.url + path, data=body, headers=_JSON, timeout=timeout, allow_redirects=False
            ) as response:
                return Answer(response.status, response.content_type, await response.read())

    async def post(
        self, worker: Worker, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        """Return the whole answer to a leg; 5xx, 3xx and 429 raise WorkerFailure."""
        async with self.open(worker, path, body, headers, timeout_s) as response:
            return Answer(response.status, response.content_type, await response.read())

    @asynccontextmanager
    async def open(
        self,
        worker: Worker,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a leg and give its response; 5xx, 3xx and 429 raise WorkerFailure.

        ``idle_timeout_s`` bounds each silence, ``timeout_s`` the whole.
        """
        timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=self._connect_timeout_s, sock_read=idle_timeout_s
        )
        with worker.watched(), _failures(worker.name):
            async with self._session.post(
                worker.url + path,
                data=body,
                headers={**_JSON, **headers},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status // 100 not in _ANSWERS or response.status == _BUSY:
                    text = (await response.read())[:500].decode(errors="replace")
                    detail = f"answered {response.status}: {text}"
                    status = response.status if response.status in _UNAVAILABLE else HTTPStatus.BAD_GATEWAY
                    raise WorkerFailure(worker.name, "status", detail, status)
                yield response


_JSON = {"Content-Type": "application/json"}


@contextmanager
def _failures(worker: str) -> Generator[None]:
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise WorkerRefused(worker, "refused", f"cannot be reached: {error.strerror or error}", 503) from None
    except aiohttp.ConnectionTimeoutError:
        raise WorkerRefused(worker, "refused", "does not take connections in time", 504) from None
    except TimeoutError:
        raise WorkerFailure(worker, "timeout", "does not answer in time", 504) from None
    except (aiohttp.ClientError, asyncio.IncompleteReadError, OSError) as error:
        detail = f"broke the connection: {error or type(error).__name__}"
        raise WorkerFailure(worker, "broken", detail) from None
