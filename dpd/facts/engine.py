"""Facts about worker images and the vLLM, LMCache and NIXL inside them."""

from __future__ import annotations

from typing import Literal

from dpd.fact import Fact


class ImageFact(Fact):
    """Say what one worker image holds, or what is installed in place of one on this machine."""

    reference: str
    digest: str | None = None
    vllm_version: str
    lmcache_version: str | None = None
    nixl_version: str | None = None
    entrypoint: Literal["api_server", "vllm_serve"]
    efa: bool
    """True where the image is known to hold the EFA build of libfabric."""


class LmcacheFact(Fact):
    """Say how one LMCache release behaves as a prefill and decode transport."""

    decode_prefix_caching_safe: bool
    supports_mla: bool
    chunk_size_tokens: int
    defects: tuple[str, ...] = ()


class LmcacheSettingFact(Fact):
    """Say which values of one LMCache setting disaggregation survives.

    The row's key is LMCache's own: `use_layerwise` is the variable LMCACHE_USE_LAYERWISE, or
    `lmcache.use_layerwise` in the transfer configuration.
    """

    kind: Literal["bool", "int", "text"]
    allowed: tuple[str, ...] = ()
    """Values that work; empty: whatever is set is wrong."""
    read: bool = True
    """False: the name of an older release, which LMCache no longer reads."""
    instead: str
    """What to do about it, as an imperative."""
    why: str


class NixlFact(Fact):
    """Say how one NIXL release behaves on EFA."""

    efa_defects: tuple[str, ...] = ()


class FeatureFact(Fact):
    """State the oldest releases with which one feature works."""

    operator_version: str
    vllm_version: str
    lmcache_version: str


FlagKind = Literal[
    "bool", "switch", "int", "count", "length", "float", "str", "optional", "json", "enum", "list"
]


class VllmFact(Fact):
    """List the server flags of one vLLM release."""

    flags: dict[str, FlagKind]
    """Long flag without dashes, to the kind of its value.

    A `bool` has a `no-` form, a `switch` has none. A `count` may be `16k`, a `length` also `auto` or -1.
    An `optional` may stand without a value.
    """
    aliases: dict[str, str] = {}
    """Short form, written with one dash, to the long flag."""
    removed: dict[str, str] = {}
    """Flag that an earlier release had, to what to use instead."""
