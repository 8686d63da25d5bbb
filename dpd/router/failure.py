"""What can go wrong, as the client and as the router's own decisions see it.

Failure               an answer for the client: HTTP status, OpenAI-shaped body
WorkerFailure         one leg at one worker; the router may try another
WorkerRefused       the request never arrived
ClientGone            nobody reads any more
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import msgspec


@dataclass
class Failure(Exception):
    """Carry what a client is told. ``code`` is the stable id of the case, in docs/router.md."""

    status: int
    code: str
    message: str
    retry_after_s: int | None = None

    def body(self) -> bytes:
        """Return the error in the form of OpenAI's API."""
        return error_body(self.status, self.code, self.message)

    def headers(self) -> dict[str, str]:
        """Return `Retry-After` where waiting helps."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def draining() -> Failure:
    """Return what clients are told once the router is on its way out."""
    return Failure(503, "draining", "this router is going away; try again", retry_after_s=1)


def error_body(status: int, code: str, message: str) -> bytes:
    """Return an error object as OpenAI's API and vLLM shape it."""
    kind = HTTPStatus(status).phrase.replace(" ", "") + ("" if status == HTTPStatus.OK else "Error")
    if status == HTTPStatus.BAD_REQUEST:
        kind = "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})


@dataclass
class WorkerFailure(Exception):
    """Say how a leg failed at a worker.

    ``kind`` is `broken` (the connection), `timeout`, `status` (5xx), `lost` (its health checks failed),
    `no_kv` (it answered without handing over a KV cache), `no_notification` or `malformed`.
    """

    worker: str
    kind: str
    detail: str
    status: int = HTTPStatus.BAD_GATEWAY

    def __str__(self) -> str:
        return f"{self.worker}: {self.detail}"


class WorkerRefused(WorkerFailure):
    """Say that the request never arrived, so that nothing at the worker needs to be released."""


class ClientGone(Exception):
    """Say that the client closed its connection."""
