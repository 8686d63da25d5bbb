"""An LMCache 0.4.3 prefiller from outside: it pushes the pages of each prompt into the decoder it is told.

The push belongs to the engine's step (`wait_for_save`): while a decoder has no free page, nothing else is
computed. A decoder that is gone never answers, so its prefillers stand still until they are restarted; vLLM
gives up after VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS. A request without `disagg_spec` kills the engine
(LMCache#2145).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import zmq
import zmq.asyncio

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.connector import Connector, Job
from dpd.simulator.errors import EngineDead
from dpd.simulator.faults import Fault, FaultKind, Faults
from dpd.simulator.lmcache_messages import (
    DTYPE,
    KV_2LTD,
    AllocRequest,
    AllocResponse,
    DisaggSpec,
    NixlInitRequest,
    NixlInitResponse,
    NixlMemRegRequest,
    ProxyNotif,
    nixl_decoder,
    page_key,
    pd_decoder,
)
from dpd.simulator.side_channel import Write, exchange
from dpd.simulator.tasks import Tasks

_NOTIFICATION_FAULTS: Final = (
    FaultKind.LOSE_NOTIFICATION,
    FaultKind.LATE_NOTIFICATION,
    FaultKind.EARLY_NOTIFICATION,
)


@dataclass(frozen=True, slots=True)
class _Peer:
    """Hold the way to one rank of one decoder."""

    alloc: zmq.asyncio.Socket
    host: str
    port: int


class LmcacheSender(Connector):
    """Push pages, one notification per rank."""

    def __init__(self, config: SimulatorConfig, faults: Faults) -> None:
        self._config = config
        self._faults = faults
        self._context = zmq.asyncio.Context()
        self._peers: dict[str, _Peer] = {}
        self._proxies: list[zmq.asyncio.Socket] = []
        self._late = Tasks()

    async def start(self) -> None:
        """Connect each rank to the router's sink, which need not be there yet."""
        address = f"tcp://{self._config.pd_proxy_host}:{self._config.pd_proxy_port}"
        for _ in range(self._config.tensor_parallel):
            socket = self._context.socket(zmq.PUSH)
            socket.connect(address)
            self._proxies.append(socket)

    async def close(self) -> None:
        """Drop what is not sent."""
        await self._late.close()
        self._context.destroy(linger=0)

    async def save(self, job: Job) -> None:
        """Push every rank's pages and notify the router."""
        spec = self._spec(job)
        fault = next(filter(None, map(self._faults.take, _NOTIFICATION_FAULTS)), None)
        try:
            await asyncio.gather(*(self._push(job, spec, rank, fault) for rank in self._ranks()))
        except OSError as error:
            raise EngineDead(f"NIXL write failed: {error}") from None

    async def abandon(self, job: Job) -> None:
        """Allocate the pages, and no more."""
        spec = self._spec(job)
        await asyncio.gather(*(self._allocate(job, spec, rank) for rank in self._ranks()))

    def finish(self, job: Job) -> dict[str, Any] | None:
        """Return the first token where the router asked for it."""
        if "ret_first_tok" not in job.kv_params:
            return None
        return {"first_tok": job.generation.token_ids[0]}

    def _spec(self, job: Job) -> DisaggSpec:
        if "disagg_spec" not in job.kv_params:
            raise EngineDead("AttributeError: 'NoneType' object has no attribute 'receiver_init_port'")
        try:
            spec = msgspec.convert(job.kv_params["disagg_spec"], DisaggSpec)
        except msgspec.ValidationError as error:
            raise EngineDead(f"disagg_spec: {error}") from None
        if min(len(spec.receiver_init_port), len(spec.receiver_alloc_port)) < self._config.tensor_parallel:
            raise EngineDead("IndexError: list index out of range")
        return spec

    def _ranks(self) -> range:
        return range(self._config.tensor_parallel)

    async def _push(self, job: Job, spec: DisaggSpec, rank: int, fault: Fault | None) -> None:
        peer, response = await self._allocate(job, spec, rank)
        if fault is None or not fault.concerns(rank):
            await self._write(job, rank, peer, response)
            await self._notify(spec, rank)
        elif fault.kind is FaultKind.EARLY_NOTIFICATION:
            await self._notify(spec, rank)
            await asyncio.sleep(fault.delay_s)
            await self._write(job, rank, peer, response)
        else:
            await self._write(job, rank, peer, response)
            if fault.kind is FaultKind.LATE_NOTIFICATION:
                self._late.start(self._notify_later(spec, rank, fault.delay_s))

    async def _write(self, job: Job, rank: int, peer: _Peer, response: AllocResponse) -> None:
        sent = set(response.already_sent_indexes)
        contents = [content for position, content in enumerate(job.contents) if position not in sent]
        if contents:
            await asyncio.sleep(self._config.transfer_ms / 1000)
            await exchange(peer.host, peer.port, Write(rank, response.remote_indexes, contents))

    async def _notify(self, spec: DisaggSpec, rank: int) -> None:
        # Where nobody reads, this blocks after ZeroMQ's 1,000 messages, and with it the engine.
        await self._proxies[rank].send(msgspec.msgpack.encode(ProxyNotif(req_id=spec.req_id)))

    async def _notify_later(self, spec: DisaggSpec, rank: int, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self._notify(spec, rank)

    async def _allocate(self, job: Job, spec: DisaggSpec, rank: int) -> tuple[_Peer, AllocResponse]:
        peer = await self._peer(spec, rank)
        chunk = self._config.chunk_tokens
        request = AllocRequest(
            keys=[page_key(self._config, rank, content, job.kv_params) for content in job.contents],
            fmt=KV_2LTD,
            shape=[2, 1, chunk, self._config.kv_bytes_per_token // 4],
            dtype=DTYPE,
            last_chunk_toks=(len(job.prompt.token_ids) - 1) % chunk + 1,
        )
        await peer.alloc.send(msgspec.msgpack.encode(request))
        response = pd_decoder.decode(await peer.alloc.recv())
        if not isinstance(response, AllocResponse):
            raise EngineDead(f"not an AllocResponse: {response!r}")
        return peer, response

    async def _peer(self, spec: DisaggSpec, rank: int) -> _Peer:
        host, init_port = spec.receiver_host, spec.receiver_init_port[rank]
        known = self._peers.get(f"{host}{init_port}")
        if known is None:
            write_host, write_port = await self._introduce(host, init_port)
            alloc = self._context.socket(zmq.REQ)
            alloc.connect(f"tcp://{host}:{spec.receiver_alloc_port[rank]}")
            known = self._peers[f"{host}{init_port}"] = _Peer(alloc, write_host, write_port)
        return known

    async def _introduce(self, host: str, init_port: int) -> tuple[str, int]:
        with self._context.socket(zmq.REQ) as socket:
            socket.connect(f"tcp://{host}:{init_port}")
            await socket.send(msgspec.msgpack.encode(NixlInitRequest(local_meta_bytes=b"sender")))
            answer = nixl_decoder.decode(await socket.recv())
            if not isinstance(answer, NixlInitResponse):
                raise EngineDead(f"not a NixlInitResponse: {answer!r}")
            register = NixlMemRegRequest(
                remote_agent_name=answer.remote_agent_name, local_id="", local_xfer_dlist_bytes=b"sender"
            )
            await socket.send(msgspec.msgpack.encode(register))
            await socket.recv()
        address, _, port = answer.remote_meta_bytes.decode().rpartition(":")
        return address, int(port)
