"""The HTTP surface: vLLM's OpenAI server, and where it is allowed, faults."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import ValidationError

from dpd.simulator.completions import Completions
from dpd.simulator.config import SimulatorConfig
from dpd.simulator.counters import Counters, EngineCollector
from dpd.simulator.engine import Engine
from dpd.simulator.errors import ApiError, Died
from dpd.simulator.faults import Fault, FaultKind, Faults
from dpd.simulator.http_stream import reset
from dpd.simulator.openai_request import read_tokenize

_BODY_BYTES = 2**26


class Server:
    """Answer HTTP requests from one engine; ``kill`` ends the whole worker."""

    def __init__(
        self,
        config: SimulatorConfig,
        engine: Engine,
        counters: Counters,
        faults: Faults,
        kill: Callable[[], None],
    ) -> None:
        self._config = config
        self._engine = engine
        self._counters = counters
        self._faults = faults
        self._kill = kill
        self._completions = Completions(config, engine, faults)

    def application(self) -> web.Application:
        """Return the application with every route."""
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=[self._shape_errors])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_route("*", "/ping", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/version", self._version)
        if self._config.allow_faults:
            app.router.add_get("/simulator/faults", self._get_faults)
            app.router.add_post("/simulator/faults", self._add_fault)
            app.router.add_delete("/simulator/faults", self._clear_faults)
        return app

    @web.middleware
    async def _shape_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if self._faults.active(FaultKind.REFUSE_CONNECTIONS):
                raise Died(Fault(kind=FaultKind.REFUSE_CONNECTIONS))
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body(), status=error.status)
        except ConnectionError:
            return web.Response()  # for nobody: the client has gone
        except Died as death:
            reset(request.transport)
            if death.fault.whole_worker:
                self._kill()
            return web.Response()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._completions.answer(request, chat=True)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await self._completions.answer(request, chat=False)

    async def _tokenize(self, request: web.Request) -> web.Response:
        tokens = read_tokenize(self._config, await request.read())
        limit = self._config.max_model_len
        return web.json_response(
            {"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": None}
        )

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._config.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": self._config.model,
            "parent": None,
            "max_model_len": self._config.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, _: web.Request) -> web.Response:
        sick = self._engine.death and not self._faults.active(FaultKind.LYING_HEALTH)
        return web.Response(status=503 if sick else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(EngineCollector(self._counters, self._engine.load, self._config.model))
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "simulated"})

    async def _get_faults(self, _: web.Request) -> web.Response:
        return web.json_response([fault.model_dump(mode="json") for fault in self._faults.all()])

    async def _add_fault(self, request: web.Request) -> web.Response:
        try:
            fault = Fault.model_validate_json(await request.read())
        except ValidationError as error:
            raise ApiError(400, str(error)) from None
        self._faults.add(fault)
        return await self._get_faults(request)

    async def _clear_faults(self, request: web.Request) -> web.Response:
        kind = request.query.get("kind")
        try:
            self._faults.clear(FaultKind(kind) if kind else None)
        except ValueError:
            allowed = ", ".join(FaultKind)
            raise ApiError(400, f"kind={kind}: there is no such fault; allowed: {allowed}", "kind") from None
        return await self._get_faults(request)
