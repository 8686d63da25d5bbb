"""An LMCache 0.4.3 decoder from outside: it hands out pages, and looks every prompt up among them.

One thread per rank serves allocations there, and waits in it for free pages, 10 ms at a time and for ever:
a full buffer stops every prefiller (LMCache#1337, #2365). One task per rank does the same here.
"""

from __future__ import annotations

import asyncio
from itertools import takewhile

import msgspec
import zmq
import zmq.asyncio

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.connector import Connector, Job, Loaded
from dpd.simulator.counters import Counters
from dpd.simulator.faults import FaultKind, Faults
from dpd.simulator.lmcache_messages import (
    AllocRequest,
    AllocResponse,
    NixlInitRequest,
    NixlInitResponse,
    NixlMemRegResponse,
    nixl_decoder,
    page_key,
    pd_decoder,
)
from dpd.simulator.pd_buffer import PdBuffer
from dpd.simulator.side_channel import Pull, Reply, SideChannel, Write
from dpd.simulator.tasks import Tasks

_RETRY_S = 0.01


class LmcacheReceiver(Connector):
    """Take pages that prefillers push."""

    def __init__(self, config: SimulatorConfig, faults: Faults, counters: Counters) -> None:
        self._config = config
        self._faults = faults
        self._counters = counters
        self._buffers = [PdBuffer(config.pd_pages) for _ in range(config.tensor_parallel)]
        self._context = zmq.asyncio.Context()
        self._tasks = Tasks()
        self._side_channel = SideChannel(config.host, config.side_channel_port, self._serve)
        self._init_ports: tuple[int, ...] = config.init_ports or (0,) * config.tensor_parallel
        self._alloc_ports: tuple[int, ...] = config.alloc_ports or (0,) * config.tensor_parallel

    @property
    def used_pages(self) -> tuple[int, ...]:
        """Return the pages taken at each rank."""
        return tuple(buffer.used for buffer in self._buffers)

    @property
    def ports(self) -> dict[str, object]:
        """Return the port of the side channel, and those of each rank."""
        return {
            "side_channel_port": self._side_channel.port,
            "init_ports": self._init_ports,
            "alloc_ports": self._alloc_ports,
        }

    async def start(self) -> None:
        """Bind two sockets per rank."""
        await self._side_channel.start()
        inits = [self._bind(port) for port in self._init_ports]
        allocs = [self._bind(port) for port in self._alloc_ports]
        self._init_ports = tuple(port for _, port in inits)
        self._alloc_ports = tuple(port for _, port in allocs)
        for socket, _ in inits:
            self._tasks.start(self._serve_init(socket))
        for rank, (socket, _) in enumerate(allocs):
            self._tasks.start(self._serve_alloc(rank, socket))

    async def close(self) -> None:
        """Unbind, and lose every page."""
        await self._tasks.close()
        self._side_channel.close()
        self._context.destroy(linger=0)

    async def load(self, job: Job) -> Loaded:
        """Retrieve the leading pages that every rank knows; the last token is computed in any case."""
        tokens = len(job.prompt.token_ids)
        self._counters.external_queries += tokens
        keys = [
            [page_key(self._config, rank, content, job.kv_params) for content in job.contents]
            for rank in range(len(self._buffers))
        ]
        hits = min(
            sum(1 for _ in takewhile(buffer.__contains__, keys_of_rank))
            for buffer, keys_of_rank in zip(self._buffers, keys, strict=True)
        )
        loaded = [
            _merged([buffer.retrieve(keys[rank][page]) for rank, buffer in enumerate(self._buffers)])
            for page in range(hits)
        ]
        spared = min(hits * self._config.chunk_tokens, tokens - 1)
        self._counters.external_hits += spared
        return Loaded(loaded, spared)

    def _bind(self, port: int) -> tuple[zmq.asyncio.Socket, int]:
        socket = self._context.socket(zmq.REP)
        socket.bind(f"tcp://{self._config.host}:{port or '*'}")
        return socket, int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1].rstrip("\0"))

    async def _serve_init(self, socket: zmq.asyncio.Socket) -> None:
        address = f"{self._config.host}:{self._side_channel.port}".encode()
        while True:
            request = nixl_decoder.decode(await socket.recv())
            if isinstance(request, NixlInitRequest):
                response = NixlInitResponse(remote_agent_name=address, remote_meta_bytes=address)
            else:
                response = NixlMemRegResponse(remote_xfer_dlist_bytes=address)
            await socket.send(msgspec.msgpack.encode(response))

    async def _serve_alloc(self, rank: int, socket: zmq.asyncio.Socket) -> None:
        while True:
            request = pd_decoder.decode(await socket.recv())
            if isinstance(request, AllocRequest):
                response = await self._allocate(self._buffers[rank], request.keys)
                await socket.send(msgspec.msgpack.encode(response))

    async def _allocate(self, buffer: PdBuffer, keys: list[str]) -> AllocResponse:
        response = AllocResponse(already_sent_indexes=[], remote_indexes=[])
        for position, key in enumerate(keys):
            if buffer.pin(key):
                response.already_sent_indexes.append(position)
                continue
            while self._faults.active(FaultKind.FULL_BUFFER) or (index := buffer.allocate(key)) is None:
                await asyncio.sleep(_RETRY_S)
            response.remote_indexes.append(index)
        return response

    def _serve(self, message: Pull | Write) -> Reply:
        if not isinstance(message, Write):
            return Reply(refused="an LMCache worker gives no pages away")
        buffer = self._buffers[message.rank]
        for index, content in zip(message.indexes, message.contents, strict=True):
            buffer.write(index, content)
        return Reply()


def _merged(ranks: list[bytes]) -> bytes:
    """Return the page of all ranks: the right content only where every rank has it."""
    return b"&".join(dict.fromkeys(ranks))
