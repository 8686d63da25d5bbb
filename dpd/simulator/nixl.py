"""vLLM's NixlConnector from outside: blocks stay with the prefiller until the decoder pulled them.

Matched with vLLM 0.32 (nixl/pull_scheduler.py): which parameters start a hold or a pull, the keys of the
prefiller's answer, block ids in one list per KV cache group, the whole prompt counted as external, the
blocks released by the decoder's pull, by its abort, or by time. Blocks that were released are not cleared:
a decoder that comes too late reads whatever they hold by then, without an error.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.connector import Connector, Job, Loaded
from dpd.simulator.counters import Counters
from dpd.simulator.errors import ApiError
from dpd.simulator.faults import FaultKind, Faults
from dpd.simulator.scheduler import Scheduler
from dpd.simulator.side_channel import Pull, Reply, SideChannel, Write, exchange
from dpd.simulator.tasks import Tasks


class _Remote(msgspec.Struct):
    """Name blocks of a prefiller, one list per KV cache group."""

    do_remote_prefill: bool
    remote_engine_id: str
    remote_request_id: str
    remote_host: str
    remote_port: int
    remote_block_ids: list[list[int]]

    async def pull(self, blocks: list[int]) -> Reply:
        """Read blocks, and let all of the request's go. Raises OSError where the prefiller is gone."""
        message = Pull(self.remote_engine_id, self.remote_request_id, blocks)
        return await exchange(self.remote_host, self.remote_port, message)


@dataclass(frozen=True, slots=True)
class _Hold:
    blocks: list[int]
    expiry: asyncio.TimerHandle


class NixlConnector(Connector):
    """Hold blocks for decoders and pull from prefillers; a worker may do both."""

    def __init__(
        self, config: SimulatorConfig, faults: Faults, counters: Counters, scheduler: Scheduler
    ) -> None:
        self._config = config
        self._faults = faults
        self._counters = counters
        self._scheduler = scheduler
        self._memory: dict[int, bytes] = {}
        self._holds: dict[str, _Hold] = {}
        self._aborts = Tasks()
        self._engine_id = str(uuid4())
        self._side_channel = SideChannel(config.host, config.side_channel_port, self._serve)

    @property
    def held_requests(self) -> int:
        """Return how many requests wait for a decoder's pull."""
        return len(self._holds)

    @property
    def held_blocks(self) -> int:
        """Return their blocks."""
        return sum(len(hold.blocks) for hold in self._holds.values())

    @property
    def ports(self) -> dict[str, object]:
        """Return the port of the side channel."""
        return {"side_channel_port": self._side_channel.port}

    async def start(self) -> None:
        """Open the side channel."""
        await self._side_channel.start()

    async def close(self) -> None:
        """Forget what is held."""
        for hold in self._holds.values():
            hold.expiry.cancel()
        self._holds.clear()
        await self._aborts.close()
        self._side_channel.close()

    async def load(self, job: Job) -> Loaded:
        """Pull the whole prompt; where that fails, end the request or leave it to be computed."""
        self._counters.external_queries += len(job.prompt.token_ids)
        remote = _remote(job)
        if remote is None:
            return Loaded()
        started = time.perf_counter()
        try:
            await asyncio.sleep(self._config.transfer_ms / 1000)
            reply = await remote.pull([block for group in remote.remote_block_ids for block in group])
        except OSError as error:
            reply = Reply(refused=str(error))
        if reply.refused:
            return self._failed(reply.refused)
        tokens = len(job.prompt.token_ids)
        self._counters.nixl_transfers += 1
        self._counters.nixl_seconds += time.perf_counter() - started
        self._counters.nixl_bytes += tokens * self._config.kv_bytes_per_token
        self._counters.external_hits += tokens
        missing = [b""] * (len(job.contents) - len(reply.contents))
        return Loaded((reply.contents + missing)[: len(job.contents)], tokens)

    def _failed(self, reason: str) -> Loaded:
        self._counters.nixl_failed_transfers += 1
        if self._config.kv_load_failure_policy == "fail":
            raise ApiError(500, f"Internal server error: KV load failed: {reason}")
        return Loaded()

    async def save(self, job: Job) -> None:
        """Keep what was computed where decoders read it."""
        self._memory.update(zip(job.blocks, job.contents, strict=True))

    def finish(self, job: Job) -> dict[str, Any] | None:
        """Keep the blocks of a request that a decoder will continue, and tell where they are."""
        if job.kv_params.get("do_remote_decode") is not True:
            return None
        request_id = f"cmpl-{uuid4().hex}"
        blocks, job.blocks = job.blocks, []
        expiry = asyncio.get_running_loop().call_later(
            self._config.kv_hold_timeout_s, self._expire, request_id
        )
        self._holds[request_id] = _Hold(blocks, expiry)
        stale = self._faults.take(FaultKind.WRONG_ENGINE_ID)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [blocks],
            "remote_engine_id": str(uuid4()) if stale else self._engine_id,
            "remote_request_id": request_id,
            "remote_host": self._config.host,
            "remote_port": self._side_channel.port,
            "tp_size": self._config.tensor_parallel,
            "remote_num_tokens": len(job.prompt.token_ids),
        }

    def abort(self, job: Job) -> None:
        """Tell the prefiller that blocks which were not pulled may go, as vLLM does."""
        remote = None if job.loaded else _remote(job)
        if remote is not None:
            self._aborts.start(_release(remote))

    def _serve(self, message: Pull | Write) -> Reply:
        if not isinstance(message, Pull):
            return Reply(refused="a NIXL worker takes no writes")
        if message.engine_id != self._engine_id:
            return Reply(refused=f"engine {message.engine_id} is gone, this is {self._engine_id}")
        contents = [self._memory.get(block, b"") for block in message.block_ids]
        self._let_go(message.request_id)
        return Reply(contents)

    def _expire(self, request_id: str) -> None:
        self._counters.nixl_expired += 1
        self._let_go(request_id)

    def _let_go(self, request_id: str) -> None:
        hold = self._holds.pop(request_id, None)
        if hold is not None:
            hold.expiry.cancel()
            self._scheduler.free(hold.blocks)


def _remote(job: Job) -> _Remote | None:
    """Return the blocks that the request names; parameters that lack a part name none."""
    try:
        remote = msgspec.convert(job.kv_params, _Remote)
    except msgspec.ValidationError:
        return None
    return remote if remote.do_remote_prefill else None


async def _release(remote: _Remote) -> None:
    with suppress(OSError):
        await remote.pull([])
