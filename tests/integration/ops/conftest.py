"""A router and simulated workers in this process, as a target of verify."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dpd.ops.verify.target import Target, TargetWorker
from dpd.router.config import RouterConfig
from dpd.router.router import Router
from dpd.simulator.config import SimulatorConfig
from dpd.simulator.faults import Fault
from dpd.simulator.worker import SimulatedWorker

WAIT_S = 60
THRESHOLD_TOKENS = 64


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class System:
    """Hold what runs, and how verify sees it."""

    stack: AsyncExitStack
    router: Router
    prefiller: SimulatedWorker
    decoder: SimulatedWorker
    target: Target

    def fault(self, worker: SimulatedWorker, kind: str, **more: Any) -> None:
        """Let a worker fail."""
        worker.faults.add(Fault.model_validate({"kind": kind, **more}))

    def told(self, **changes: Any) -> Target:
        """Return the target with another configuration than what runs."""
        return replace(self.target, **changes)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def behind_a_proxy(self) -> Target:
        """Return the target behind a proxy that passes an answer on only when it has all of it."""
        session = await self.stack.enter_async_context(aiohttp.ClientSession())

        async def forward(request: web.Request) -> web.Response:
            url = self.target.router_url + request.path
            body = await request.read() or None
            async with session.request(request.method, url, data=body) as answer:
                kept = {key: value for key, value in answer.headers.items() if key.lower().startswith("x-")}
                return web.Response(
                    status=answer.status,
                    body=await answer.read(),
                    headers={**kept, "Content-Type": answer.headers["Content-Type"]},
                )

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return self.told(router_url=f"http://127.0.0.1:{runner.addresses[0][1]}")


async def start(
    stack: AsyncExitStack,
    transport: str = "nixl",
    *,
    threshold_tokens: int = THRESHOLD_TOKENS,
    swapped: bool = False,
    decode: dict[str, Any] | None = None,
) -> System:
    """Start a prefiller, a decoder and a router; what is configured is always the same."""
    notify_port = free_port()
    # A step takes as long as that of a fast engine, so that streams take time.
    shared = {"transport": transport, "chunk_tokens": 16, "itl_ms": 2, "pd_proxy_port": notify_port}
    configs = [
        SimulatorConfig(role="prefill", **shared),
        SimulatorConfig(role="decode", **shared, **decode or {}),
    ]
    prefiller, decoder = [await stack.enter_async_context(SimulatedWorker(config)) for config in configs]
    pools = {"prefill": [{"url": prefiller.url}], "decode": [_entry(decoder)]}
    if swapped:
        pools = {"prefill": pools["decode"], "decode": pools["prefill"]}
    config: dict[str, Any] = {
        "listen": {"host": "127.0.0.1", "port": 0},
        "transport": transport,
        "routing": {"threshold_tokens": threshold_tokens},
        "workers": {"health_interval_s": 0.05, "health_timeout_s": 10, **pools},
    }
    if transport == "lmcache":
        config["lmcache"] = {
            "notify_host": "127.0.0.1",
            "notify_port": notify_port,
            "chunk_tokens": 16,
            "pages_per_decoder": 1024,
        }
    router = await stack.enter_async_context(Router(RouterConfig.model_validate(config)))
    system = System(stack, router, prefiller, decoder, _target(transport, router, prefiller, decoder))
    await system.until(lambda: len(usable(router)) == 2)
    return system


def usable(router: Router) -> list[str]:
    """Return the workers that the router uses."""
    services = router.services
    return [worker.url for pool in (services.prefill, services.decode) for worker in pool.usable()]


def _entry(decoder: SimulatedWorker) -> dict[str, Any]:
    ports = {
        "receiver_init_ports": decoder.config.init_ports,
        "receiver_alloc_ports": decoder.config.alloc_ports,
    }
    return {"url": decoder.url, **ports}


def _target(transport: str, router: Router, prefiller: SimulatedWorker, decoder: SimulatedWorker) -> Target:
    seed = {"PYTHONHASHSEED": "0"}
    return Target(
        environment="test",
        model="tiny",
        engine="simulated",
        transport=transport,
        router_url=f"http://127.0.0.1:{router.port}",
        threshold_tokens=THRESHOLD_TOKENS,
        max_model_len=decoder.config.max_model_len,
        replicas={"prefill": 1, "decode": 1},
        workers=(
            TargetWorker("prefill-0", "prefill", prefiller.url, ("--role", "prefill"), seed),
            TargetWorker("decode-0", "decode", decoder.url, ("--role", "decode"), seed),
        ),
    )


Scenario = Callable[[System], Awaitable[Any]]


@pytest.fixture
def simulate() -> Callable[..., Any]:
    """Return a function that runs one scenario with a system of its own."""

    def run(scenario: Scenario, *arguments: Any, **options: Any) -> Any:
        async def main() -> Any:
            async with asyncio.timeout(2 * WAIT_S), AsyncExitStack() as stack:
                return await scenario(await start(stack, *arguments, **options))

        return asyncio.run(main())

    return run
