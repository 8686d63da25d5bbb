"""How many bytes of KV cache one token leaves on one rank.

Grouped-query attention stores ``2 * kv_heads * head_dim * dtype`` bytes per token and layer (LMCache
0.4.3, ``pd_backend.py``), multi-head latent attention one vector.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpd.spec.engine_args import EngineArgs
from dpd.spec.model import DTYPE_BYTES, Architecture

# vLLM 0.19 `--kv-cache-dtype`; `auto` follows the model.
_KV_DTYPE_BYTES: Mapping[str, int] = {
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
}


def kv_bytes_per_token(architecture: Architecture, tensor_parallel: int, dtype_bytes: int) -> int:
    """Return the KV cache bytes that one token occupies on one tensor-parallel rank, all layers full.

    KV heads are replicated where there are more ranks than heads. MLA keeps one latent vector per
    layer, whole on every rank.
    """
    if architecture.attention == "mla":
        latent = (architecture.kv_lora_rank or 0) + (architecture.qk_rope_head_dim or 0)
        return architecture.layers * latent * dtype_bytes
    heads = -(-architecture.kv_heads // tensor_parallel)
    return 2 * architecture.layers * heads * architecture.head_dim * dtype_bytes


def kv_dtype_bytes(architecture: Architecture, engine: EngineArgs) -> int:
    """Return the bytes of one KV element, from ``--kv-cache-dtype`` or the model's own type."""
    chosen = str(engine.values.get("kv-cache-dtype", "auto"))
    return _KV_DTYPE_BYTES.get(chosen, DTYPE_BYTES[architecture.dtype])
