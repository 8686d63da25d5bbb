"""Fixtures of the router's tests: single parts, and a lab with workers, a router and a client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from dpd.router.config import RouterConfig
from dpd.router.pool import Length
from dpd.router.router import Router
from dpd.simulator.config import SimulatorConfig
from dpd.simulator.faults import Fault
from dpd.simulator.worker import SimulatedWorker

LONG = " ".join(f"word{number}" for number in range(60))
SHORT = "hello"
WAIT_S = 30
# Roomy, so that only what a test asks for ever expires.
LIMITS = {"queue_timeout_s": 20, "prefill_timeout_s": 20, "stream_idle_timeout_s": 20, "drain_timeout_s": 5}
WORKERS = {"health_interval_s": 0.05, "health_timeout_s": 10, "ejection_s": 0.2}


@pytest.fixture
def until() -> Callable[..., Any]:
    """Return a wait for a condition, which fails after 30 s."""
    return _until


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


@dataclass(frozen=True)
class Reply:
    """Hold what a client got. ``error`` is OpenAI's error object, of a body or of a stream's last event."""

    status: int
    headers: Any
    raw: bytes
    text: str = ""
    error: Any = None
    done: bool = False

    @property
    def path(self):
        return self.headers.get("x-dpd-path"), self.headers.get("x-dpd-reason")


def read_reply(status, headers, raw):
    """Read an answer as a client does."""
    if headers["Content-Type"].startswith("text/event-stream"):
        events = [event.removeprefix("data: ") for event in raw.decode().split("\n\n") if event.strip()]
        parsed = [json.loads(event) for event in events if event != "[DONE]"]
        text = "".join(_text(choice) for event in parsed for choice in event.get("choices", ()))
        error = parsed[-1].get("error") if parsed else None
        return Reply(status, headers, raw, text, error, events[-1:] == ["[DONE]"])
    body = json.loads(raw)
    if "error" in body:
        return Reply(status, headers, raw, error=body["error"])
    return Reply(status, headers, raw, "".join(map(_text, body["choices"])), done=True)


def _text(choice):
    return choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""


class System:
    """Hold one router, its workers, and a colocated worker that knows the right answers."""

    def __init__(self, session, router, oracle, prefillers, decoders):
        self.session = session
        self.router = router
        self.oracle = oracle
        self.prefillers = prefillers
        self.decoders = decoders
        self.url = f"http://127.0.0.1:{router.port}"

    @property
    def workers(self):
        """Return every worker as the router sees it."""
        services = self.router.services
        return [worker for pool in (services.prefill, services.decode) for worker in pool.workers.values()]

    def seen(self, simulated):
        """Return one worker as the router sees it."""
        return next(worker for worker in self.workers if worker.url == simulated.url)

    def metric(self, name, **labels):
        """Return a sample, 0 where there is none."""
        registry = self.router.services.metrics.registry
        return registry.get_sample_value(f"dpd_router_{name}", labels) or 0

    def post(self, prompt=LONG, *, url=None, path="/v1/completions", headers=None, **fields):
        """Return the context manager of a request."""
        asked = {"messages": [{"role": "user", "content": prompt}]} if "chat" in path else {"prompt": prompt}
        body = asked | {"max_tokens": 8, "temperature": 0} | fields
        return self.session.post((url or self.url) + path, json=body, headers=headers)

    async def ask(self, prompt=LONG, **fields):
        """Return the reply to a completion."""
        async with self.post(prompt, **fields) as response:
            return read_reply(response.status, response.headers, await response.read())

    async def right(self, prompt=LONG, **fields):
        """Return the text that a colocated worker answers."""
        reply = await self.ask(prompt, url=self.oracle.url, **fields)
        assert reply.status == 200, reply
        return reply.text

    async def answers(self, prompt=LONG, **fields):
        """Ask, demand the right answer, and return the reply."""
        reply = await self.ask(prompt, **fields)
        assert (reply.status, reply.error, reply.done) == (200, None, True), reply
        assert reply.text == await self.right(prompt, **fields)
        return reply

    async def get(self, path):
        """Return status and body."""
        async with self.session.get(self.url + path) as response:
            return response.status, await response.text()

    def held(self):
        """Return what is still taken, at the router and at the workers."""
        services = self.router.services
        pools = (services.prefill, services.decode)
        sink = getattr(services.transport, "_sink", None)
        found = {
            "exchanges": len(self.router.server.exchanges),
            "waiting": sum(pool.waiting(length) for pool in pools for length in Length),
            "expected": len(sink._expected) if sink else 0,
        }
        found |= {f"{worker.name} {worker.role}": worker.running + worker.pages for worker in self.workers}
        for worker in (*self.prefillers, *self.decoders):
            load = worker.load
            found[worker.url] = any(
                (load.running, load.waiting, load.usage, load.held_requests, *load.used_pages)
            )
        return {name: count for name, count in found.items() if count}

    async def settled(self):
        """Wait until nothing is held, and say what is where that does not come."""
        try:
            await _until(lambda: not self.held())
        except TimeoutError:
            raise AssertionError(f"still held: {self.held()}") from None


class Lab:
    """Start systems that end with the scenario."""

    def __init__(self, stack, session):
        self.stack = stack
        self.session = session

    until = staticmethod(_until)

    async def worker(self, **config):
        quick = {"chunk_tokens": 16, "itl_ms": 0, "transfer_ms": 0, "prefill_tokens_per_s": 1e7}
        return await self.stack.enter_async_context(SimulatedWorker(SimulatorConfig(**quick | config)))

    async def system(
        self, transport="nixl", prefillers=1, decoders=1, *, prefill=None, decode=None, lmcache=None, **config
    ):
        """Start workers and a router in front of them; wait until it is ready."""
        notify_port = free_port()
        shared = {"transport": transport, "tensor_parallel": 2}
        oracle = await self.worker()
        mine = {"role": "prefill", "pd_proxy_port": notify_port, **shared, **(prefill or {})}
        prefilling = [await self.worker(**mine) for _ in range(prefillers)]
        decoding = [
            await self.worker(**{"role": "decode", **shared, **(decode or {})}) for _ in range(decoders)
        ]
        merged = {
            "listen": {"host": "127.0.0.1", "port": 0},
            "transport": transport,
            "routing": {"threshold_tokens": 50, "strategy": "roundrobin"} | config.pop("routing", {}),
            "limits": LIMITS | config.pop("limits", {}),
            "workers": WORKERS | static_workers(prefilling, decoding) | config.pop("workers", {}),
            **config,
        }
        if transport == "lmcache":
            ours = {"notify_host": "127.0.0.1", "notify_port": notify_port, "ranks": 2, "chunk_tokens": 16}
            merged["lmcache"] = ours | {"pages_per_decoder": 1024, "notify_timeout_s": 20} | (lmcache or {})
        router = await self.stack.enter_async_context(Router(RouterConfig(**merged)))
        system = System(self.session, router, oracle, prefilling, decoding)
        await _until(lambda: bool(system.workers) and all(worker.healthy for worker in system.workers))
        return system


def static_workers(prefilling, decoding):
    """Return the configuration that names these workers."""
    ports = [
        {"receiver_init_ports": one.config.init_ports, "receiver_alloc_ports": one.config.alloc_ports}
        for one in decoding
    ]
    return {
        "prefill": [{"url": one.url} for one in prefilling],
        "decode": [{"url": one.url, **more} for one, more in zip(decoding, ports, strict=True)],
    }


def free_port():
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def simulate():
    """Return a function that runs one scenario, which gets a lab, in an event loop of its own."""

    def run(scenario):
        async def main():
            async with asyncio.timeout(60), AsyncExitStack() as stack:
                session = await stack.enter_async_context(aiohttp.ClientSession())
                return await scenario(Lab(stack, session))

        return asyncio.run(main())

    return run


@pytest.fixture(params=["nixl", "lmcache"])
def transport(request):
    """Return each transport in turn."""
    return request.param


@pytest.fixture
def fault():
    """Return a function that sets a fault at a worker."""

    def add(worker, kind, **more):
        worker.faults.add(Fault(kind=kind, **more))

    return add
