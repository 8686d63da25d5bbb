"""The messages in which a vLLM engine tells what enters and leaves its prefix cache.

`EventBatch` and its events are msgspec structs of vllm/distributed/kv_events.py: the batch an array, the
events tagged arrays in vLLM 0.19 and tagged maps in 0.32. Fields stand here in the order of those arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

BlockHash = bytes | int
"""Bytes, or 64 bits of them, as the engine's VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES says."""


class BlockStored(msgspec.Struct, tag=True):
    """Say that full blocks are cached: ``token_ids`` are those of all ``block_hashes``, one after another."""

    block_hashes: list[BlockHash]
    parent_block_hash: BlockHash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[Any] | None = None
    group_idx: int | None = None


class BlockRemoved(msgspec.Struct, tag=True):
    """Say that blocks were evicted."""

    block_hashes: list[BlockHash]
    medium: str | None = None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True):
    """Say that the cache is empty."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class _StoredArray(BlockStored, array_like=True, tag="BlockStored"):
    pass


class _RemovedArray(BlockRemoved, array_like=True, tag="BlockRemoved"):
    pass


class _ClearedArray(AllBlocksCleared, array_like=True, tag="AllBlocksCleared"):
    pass


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[KvEvent]


class _BatchOfArrays(msgspec.Struct, array_like=True):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]


_decoder = msgspec.msgpack.Decoder(_Batch)
_array_decoder = msgspec.msgpack.Decoder(_BatchOfArrays)


def decode_events(payload: bytes) -> Sequence[KvEvent]:
    """Return the events of one batch; raises msgspec.MsgspecError."""
    try:
        return _decoder.decode(payload).events
    except msgspec.ValidationError:
        return _array_decoder.decode(payload).events
