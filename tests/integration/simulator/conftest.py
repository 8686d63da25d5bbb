"""Workers, a client and a notification sink that live as long as one scenario."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.faults import Fault
from dpd.simulator.worker import SimulatedWorker

LONG = " ".join(f"word{number}" for number in range(60))
ASK = {"do_remote_decode": True, "do_remote_prefill": False, "remote_block_ids": None}


class Lab:
    """Start workers, and talk to them."""

    def __init__(self, stack, session):
        self.stack = stack
        self.session = session

    async def worker(self, **config):
        quick = {"chunk_tokens": 16, "itl_ms": 0, "transfer_ms": 0, "prefill_tokens_per_s": 1e7}
        return await self.stack.enter_async_context(SimulatedWorker(SimulatorConfig(**quick | config)))

    async def nixl_pair(self, **decode):
        return await self.worker(role="prefill"), await self.worker(role="decode", **decode)

    async def lmcache_pair(self, ranks=2, **decode):
        """Return sink, prefiller and decoder."""
        sink = Sink()
        self.stack.callback(sink.close)
        shared = {"transport": "lmcache", "tensor_parallel": ranks}
        decoder = await self.worker(role="decode", **shared, **decode)
        return sink, await self.worker(role="prefill", pd_proxy_port=sink.port, **shared), decoder

    async def post(self, worker, prompt=LONG, path="/v1/completions", **fields):
        """Return status and body of a completion."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0} | fields
        async with self.session.post(worker.url + path, json=body) as response:
            return response.status, await response.json()

    async def text(self, worker, prompt=LONG, **fields):
        status, body = await self.post(worker, prompt, **fields)
        assert status == 200, body
        return body["choices"][0]["text"]

    async def raw_stream(self, worker, prompt=LONG, path="/v1/completions", **fields):
        """Return every byte of a stream."""
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "stream": True} | fields
        async with self.session.post(worker.url + path, json=body) as response:
            assert response.status == 200, await response.text()
            return await response.read()

    async def events(self, worker, *args, **fields):
        """Return the events of a stream; the last is None, for [DONE]."""
        raw = await self.raw_stream(worker, *args, **fields)
        lines = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
        return [None if line == "[DONE]" else json.loads(line) for line in lines]

    async def get(self, worker, path):
        async with self.session.get(worker.url + path) as response:
            return response.status, await response.text()

    async def nixl_prefill(self, prefiller, prompt=LONG):
        """Return the parameters of the hand-over."""
        status, body = await self.post(prefiller, prompt, max_tokens=1, kv_transfer_params=ASK)
        assert status == 200, body
        return body["kv_transfer_params"]

    async def lmcache_prefill(self, prefiller, decoder, prompt=LONG, req_id="one", **more):
        params = {
            "ret_first_tok": True,
            "disagg_spec": {
                "req_id": req_id,
                "receiver_host": "127.0.0.1",
                "receiver_init_port": decoder.config.init_ports,
                "receiver_alloc_port": decoder.config.alloc_ports,
            },
            **more,
        }
        return await self.post(prefiller, prompt, max_tokens=1, kv_transfer_params=params)

    async def until(self, condition):
        """Wait until a condition holds."""
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.005)


class Sink:
    """Collect the notifications of prefillers, as a router does."""

    def __init__(self):
        self.context = zmq.asyncio.Context()
        self.socket = self.context.socket(zmq.PULL)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")

    async def read(self, count=1, timeout_s=20.0):
        async with asyncio.timeout(timeout_s):
            return [msgspec.msgpack.decode(await self.socket.recv()) for _ in range(count)]

    async def waiting(self):
        """Return whether a message is there, after a pause in which one would have come."""
        return bool(await self.socket.poll(150))

    def close(self):
        self.context.destroy(linger=0)


@pytest.fixture
def simulate():
    """Return a function that runs one scenario, which gets a lab."""

    def run(scenario):
        async def main():
            async with AsyncExitStack() as stack, asyncio.timeout(60):
                session = await stack.enter_async_context(aiohttp.ClientSession())
                return await scenario(Lab(stack, session))

        return asyncio.run(main())

    return run


@pytest.fixture
def fault():
    """Return a function that sets a fault at a worker."""

    def add(worker, kind, **more):
        worker.faults.add(Fault(kind=kind, **more))

    return add


@pytest.fixture
def idle():
    """Return a function that tells whether a worker holds nothing."""

    def check(worker):
        load = worker.load
        held = (load.running, load.waiting, load.usage, load.held_requests, *load.used_pages)
        return not any(held)

    return check
