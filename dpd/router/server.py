"""The HTTP surface: OpenAI's API towards clients, and what operators ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dpd.router.auth import Tenants
from dpd.router.client_answer import ClientAnswer
from dpd.router.exchange import Exchange
from dpd.router.failure import Failure, WorkerFailure, draining
from dpd.router.openai_request import CHAT_PATH, COMPLETIONS_PATH, parse_request
from dpd.router.pool import Pool
from dpd.router.services import Services
from dpd.router.timeline import Timeline

_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_PASS_TIMEOUT_S: Final = 30.0
_JSON: Final = "application/json"

_request_id: ContextVar[str] = ContextVar("request_id")


class Server:
    """Answer HTTP requests. ``exchanges`` are the completions that are not finished."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tenants = Tenants(services.config.auth)
        self.exchanges: dict[asyncio.Task[None], Exchange] = {}
        self.draining = False

    def application(self) -> web.Application:
        """Return the application with every route."""
        app = web.Application(
            client_max_size=self._services.config.limits.body_bytes, middlewares=[self._shape_errors]
        )
        app.router.add_post(CHAT_PATH, self._complete)
        app.router.add_post(COMPLETIONS_PATH, self._complete)
        app.router.add_get("/v1/models", self._pass)
        app.router.add_post("/tokenize", self._pass)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/debug/workers", self._workers)
        return app

    @web.middleware
    async def _shape_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Give every error the form of OpenAI's API, and every answer a request id."""
        sent = request.headers.get("x-request-id", "")
        request_id = f"{sent}-{uuid4().hex[:8]}" if _ID.fullmatch(sent) else uuid4().hex
        _request_id.set(request_id)
        try:
            response = await handler(request)
        except Failure as failure:
            self._services.metrics.rejected(failure.code)
            response = web.Response(
                status=failure.status, body=failure.body(), content_type=_JSON, headers=failure.headers()
            )
        except web.HTTPRequestEntityTooLarge:
            limit = self._services.config.limits.body_bytes
            response = self._refusal(413, "body_too_large", f"the body has more than {limit} bytes")
        except web.RequestPayloadError as error:
            response = self._refusal(400, "unreadable_body", f"the body cannot be read: {error}")
        except web.HTTPException as error:
            response = self._refusal(
                error.status, "no_such_route", f"{request.method} {request.path}: {error.reason}"
            )
        if not response.prepared:
            response.headers.setdefault("x-request-id", request_id)
        return response

    def _refusal(self, status: int, code: str, message: str) -> web.Response:
        self._services.metrics.rejected(code)
        return web.Response(status=status, body=Failure(status, code, message).body(), content_type=_JSON)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        """Run one completion in a task that outlives the client, should it go away."""
        tenant = self._tenants.identify(request.headers.get("Authorization"))
        parsed = parse_request(request.path, await self._read(request))
        if self.draining:
            raise draining()
        leave = self._tenants.enter(tenant)
        config, request_id = self._services.config, _request_id.get()
        headers = {name.lower(): value for name, value in request.headers.items()}
        exchange = Exchange(
            self._services,
            parsed,
            ClientAnswer(request, {"x-request-id": request_id}),
            request_id,
            headers.get(config.routing.session_header.lower(), "") or parsed.user,
            self._services.tracer.started(request_id, headers),
            Timeline(),
        )
        task = asyncio.create_task(_run(exchange, leave))
        self.exchanges[task] = exchange
        task.add_done_callback(self.exchanges.pop)
        try:
            return await exchange.answer.ready
        except asyncio.CancelledError:
            exchange.abandon()
            raise

    async def _read(self, request: web.Request) -> bytes:
        timeout_s = self._services.config.limits.request_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await request.read()
        except TimeoutError:
            raise Failure(408, "body_timeout", f"the body did not arrive within {timeout_s:g} s") from None

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        """Pass a call that every decoder answers alike to one of them."""
        self._tenants.identify(request.headers.get("Authorization"))
        decoder = self._services.any_decoder()
        if decoder is None:
            raise Failure(503, "no_decode_worker", "no decode worker is healthy", retry_after_s=1)
        body = await self._read(request) if request.can_read_body else None
        try:
            answer = await self._services.upstream.forward(
                decoder, request.method, request.path, body, _PASS_TIMEOUT_S
            )
        except WorkerFailure as failure:
            raise Failure(failure.status, f"decode_{failure.kind}", failure.detail) from None
        return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)

    async def _health(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async def _ready(self, _: web.Request) -> web.StreamResponse:
        """Be ready while a decoder is: without prefillers, decoders do all the work.

        Not before every worker was asked once, or the first long prompts would find no prefiller.
        """
        services = self._services
        pools = (services.prefill, services.decode)
        checked = all(worker.checked for pool in pools for worker in pool.workers.values())
        usable = {pool.role.value: len(pool.usable()) for pool in pools}
        ready = checked and not self.draining and bool(services.decode.usable())
        body = {"ready": ready, "draining": self.draining, "usable_workers": usable}
        return web.json_response(body, status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.StreamResponse:
        body = generate_latest(self._services.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _workers(self, _: web.Request) -> web.StreamResponse:
        services = self._services
        return web.json_response(
            {
                "transport": services.config.transport,
                "threshold_tokens": services.config.routing.threshold_tokens,
                "in_flight": len(self.exchanges),
                "workers": [row for pool in (services.prefill, services.decode) for row in _rows(pool)],
            }
        )


async def _run(exchange: Exchange, leave: Callable[[], None]) -> None:
    try:
        await exchange.run()
    finally:
        leave()
    await exchange.settle()


def _rows(pool: Pool) -> list[dict[str, object]]:
    usable = set(pool.usable())
    return [
        {
            "role": worker.role,
            "url": worker.url,
            "usable": worker in usable,
            "healthy": worker.healthy,
            "why": worker.why,
            "ejected": worker.breaker.open,
            "retry_in_s": round(worker.breaker.retry_in_s(), 1),
            "running": worker.running,
            "pages": worker.pages,
        }
        for worker in pool.workers.values()
    ]
