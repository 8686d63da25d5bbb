"""How many bytes of KV cache a prompt takes, and how many prompts a PD buffer holds.

Formulas: grouped-query attention stores ``2 * layers * kv_heads * head_dim * dtype`` bytes per token
(LMCache 0.4.3, ``pd_backend.py``); LMCache moves whole pages, so a partial last page costs a full one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.spec.deployment import RoleDeployment
from dpd.spec.model import DTYPE_BYTES, Architecture, Model

# vLLM 0.19 `--kv-cache-dtype`; `auto` follows the model.
_KV_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}


@dataclass(frozen=True, slots=True)
class PdBuffer:
    """Describe what a PD buffer of ``buffer_bytes`` per rank holds."""

    buffer_bytes: int
    bytes_per_token: int
    page_tokens: int

    @property
    def page_bytes(self) -> int:
        """Return the bytes of one page on one rank."""
        return self.bytes_per_token * self.page_tokens

    @property
    def pages(self) -> int:
        """Return how many whole pages fit; LMCache rounds the buffer down to them."""
        return self.buffer_bytes // self.page_bytes

    @property
    def tokens(self) -> int:
        """Return how many tokens fit in whole pages."""
        return self.pages * self.page_tokens

    def prompt_pages(self, tokens: int) -> int:
        """Return the pages that a prompt of ``tokens`` occupies."""
        return math.ceil(tokens / self.page_tokens)

    def prompt_bytes(self, tokens: int) -> int:
        """Return the page-rounded bytes that a prompt of ``tokens`` occupies on one rank."""
        return self.prompt_pages(tokens) * self.page_bytes

    def prompts(self, tokens: int) -> int:
        """Return how many prompts of ``tokens`` fit at once."""
        return self.pages // self.prompt_pages(tokens)


def kv_bytes_per_token(architecture: Architecture, tensor_parallel: int, dtype_bytes: int) -> int:
    """Return the KV cache bytes that one token occupies on one tensor-parallel rank.

    KV heads are replicated where there are more ranks than heads. MLA keeps one latent vector per
    layer, whole on every rank.
    """
    if architecture.attention == "mla":
        latent = (architecture.kv_lora_rank or 0) + (architecture.qk_rope_head_dim or 0)
        return architecture.layers * latent * dtype_bytes
    heads = max(1, math.ceil(architecture.kv_heads / tensor_parallel))
    return 2 * architecture.layers * heads * architecture.head_dim * dtype_bytes


def kv_dtype_bytes(model: Model, role: RoleDeployment) -> int:
    """Return the bytes of one KV element, from ``--kv-cache-dtype`` or the model's own type."""
    chosen = str(role.engine.values.get("kv-cache-dtype", "auto"))
    return _KV_DTYPE_BYTES.get(chosen, DTYPE_BYTES[model.architecture.dtype])


def pd_buffer(model: Model, role: RoleDeployment, facts: Facts) -> PdBuffer:
    """Return the PD buffer of a role as the engine will see it."""
    return PdBuffer(
        buffer_bytes=model.dpd.pd_buffer,
        bytes_per_token=kv_bytes_per_token(
            model.architecture, role.resources.gpus, kv_dtype_bytes(model, role)
        ),
        page_tokens=int(facts.constant("lmcache_page_tokens")),
    )


def prompts_in_flight(requests_per_second: float, residence_s: float, quantile: float) -> int:
    """Return how many prompts wait in the buffer at once, by Little's law with a Poisson margin."""
    mean = requests_per_second * residence_s
    return math.ceil(mean + quantile * math.sqrt(mean))


def transfer_seconds(tokens: int, bytes_per_token: int, gbit_per_gpu: float) -> float:
    """Return the time that the KV cache of ``tokens`` takes at line rate, every rank in parallel."""
    return tokens * bytes_per_token * 8 / (gbit_per_gpu * 1e9)
