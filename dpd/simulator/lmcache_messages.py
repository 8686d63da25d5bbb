"""The messages of LMCache 0.4.3's PD backend, as msgpack with the class name under `type`.

Matched with the wheel lmcache 0.4.3: names, fields and their types in storage_backend/pd_backend.py
(AllocRequest, AllocResponse, ProxyNotif) and transfer_channel/nixl_channel.py (the four Nixl messages, sent
in two rounds), the key's text form in utils.py (CacheEngineKey.to_string), MemoryFormat.KV_2LTD = 1 with the
tokens in dimension 2. The bytes that describe a NIXL agent are opaque there; here they are the address of a
side channel, so a real sender and a simulated receiver can not be mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dpd.simulator.config import SimulatorConfig

KV_2LTD: Final = 1
DTYPE: Final = "bfloat16"


class _Message(msgspec.Struct, tag=True):
    pass


class DisaggSpec(msgspec.Struct):
    """Name the decoder to push to, one port per rank; part of a prefill request's `kv_transfer_params`."""

    req_id: str
    receiver_host: str
    receiver_init_port: list[int]
    receiver_alloc_port: list[int]


class AllocRequest(_Message):
    """Ask a decoder for one page per key."""

    keys: list[str]
    fmt: int
    shape: list[int]
    dtype: str
    last_chunk_toks: int


class AllocResponse(_Message):
    """Name the keys, by position, that need no write, and the pages for the others, in order."""

    already_sent_indexes: list[int]
    remote_indexes: list[int]


class ProxyNotif(_Message):
    """Tell the router that one rank has written all pages of a request."""

    req_id: str


class NixlInitRequest(_Message):
    """Open the acquaintance of two agents."""

    local_meta_bytes: bytes


class NixlMemRegRequest(_Message):
    """Name the sender's memory."""

    remote_agent_name: bytes
    local_id: str
    local_xfer_dlist_bytes: bytes


class NixlInitResponse(_Message):
    """Name the receiver's agent."""

    remote_agent_name: bytes
    remote_meta_bytes: bytes


class NixlMemRegResponse(_Message):
    """Name the receiver's memory."""

    remote_xfer_dlist_bytes: bytes


PdMessage = AllocRequest | AllocResponse | ProxyNotif
NixlMessage = NixlInitRequest | NixlInitResponse | NixlMemRegRequest | NixlMemRegResponse

pd_decoder: Final = msgspec.msgpack.Decoder(PdMessage)
nixl_decoder: Final = msgspec.msgpack.Decoder(NixlMessage)


def page_key(config: SimulatorConfig, rank: int, content: bytes, kv_params: Mapping[str, Any]) -> str:
    """Return the key of one page: model, ranks, rank, hash of all tokens so far, dtype, and any tags."""
    seed = config.hash_seed.to_bytes(8, "big", signed=True)
    chunk_hash = int.from_bytes(blake2b(content, digest_size=8, key=seed).digest(), "big")
    tags = [
        f"@{name.removeprefix('lmcache.tag.')}%{value}"
        for name, value in kv_params.items()
        if name.startswith("lmcache.tag.")
    ]
    return f"{config.model}@{config.tensor_parallel}@{rank}@{chunk_hash:x}@{DTYPE}{''.join(tags)}"
