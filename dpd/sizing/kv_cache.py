"""What a prompt takes of the KV cache, and how many prompts a PD buffer holds.

LMCache moves whole pages, so a partial last page costs a full one (LMCache 0.4.3, ``pd_backend.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.spec.deployment import RoleDeployment
from dpd.spec.kv_cache import kv_bytes_per_token, kv_dtype_bytes
from dpd.spec.lmcache import chunk_tokens
from dpd.spec.model import Model


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
    def whole_bytes(self) -> int:
        """Return the bytes of the whole pages, which is what the engine is given."""
        return self.pages * self.page_bytes

    @property
    def tokens(self) -> int:
        """Return how many tokens fit in whole pages."""
        return self.pages * self.page_tokens

    def prompt_pages(self, tokens: int) -> int:
        """Return the pages that a prompt of ``tokens`` occupies."""
        return -(-tokens // self.page_tokens)

    def prompt_bytes(self, tokens: int) -> int:
        """Return the page-rounded bytes that a prompt of ``tokens`` occupies on one rank."""
        return self.prompt_pages(tokens) * self.page_bytes

    def prompts(self, tokens: int) -> int:
        """Return how many prompts of ``tokens`` fit at once."""
        return self.pages // self.prompt_pages(tokens)

    def stall_s(self, requests_per_second: float, tokens: int) -> float:
        """Return how long the decoder may take nothing out before prompts of ``tokens`` fill the buffer."""
        return self.whole_bytes / (requests_per_second * self.prompt_bytes(tokens))


@dataclass(frozen=True, slots=True)
class KvCache:
    """Describe what sequences leave in the KV cache of one rank.

    vLLM lets the layers of a sliding window keep only the window, but switches that off wherever a
    connector transfers KV cache (vLLM 0.19, hybrid KV cache manager); ``windowed_layers`` is 0 then.
    """

    bytes_per_token_and_layer: int
    layers: int
    windowed_layers: int = 0
    window_tokens: int = 0

    @property
    def bytes_per_token(self) -> int:
        """Return the bytes of one token in all layers."""
        return self.bytes_per_token_and_layer * self.layers

    def sequence_bytes(self, tokens: int) -> int:
        """Return the bytes of one sequence of ``tokens``."""
        held = (self.layers - self.windowed_layers) * tokens
        held += self.windowed_layers * min(tokens, self.window_tokens)
        return held * self.bytes_per_token_and_layer


def kv_cache(model: Model, role: RoleDeployment) -> KvCache:
    """Return the KV cache of one rank of ``role``."""
    shape = model.architecture
    per_token = kv_bytes_per_token(shape, role.resources.gpus, kv_dtype_bytes(shape, role.engine))
    windowed = shape.sliding_window_layers if role.name == "worker" else 0
    return KvCache(per_token // shape.layers, shape.layers, windowed, shape.sliding_window or 0)


def pd_buffer(model: Model, role: RoleDeployment, facts: Facts) -> PdBuffer:
    """Return the PD buffer of a role as it is configured; the engine sees its ``whole_bytes``."""
    return PdBuffer(
        buffer_bytes=model.dpd.pd_buffer,
        bytes_per_token=kv_cache(model, role).bytes_per_token,
        page_tokens=chunk_tokens(model.dpd.environment, role.engine, facts),
    )


def recommended_bytes(buffer: PdBuffer, prompts: int, input_tokens: int, max_model_len: int) -> int:
    """Return the PD buffer for ``prompts`` in flight and one longest prompt, in whole GiB.

    The longest prompt comes in addition, because nothing frees its pages while it waits for more.
    """
    needed = prompts * buffer.prompt_bytes(input_tokens) + buffer.prompt_bytes(max_model_len)
    return -(-needed // GIB) * GIB


def prompts_in_flight(requests_per_second: float, residence_s: float, quantile: float) -> int:
    """Return how many prompts wait in the buffer at once, by Little's law with a Poisson margin."""
    mean = requests_per_second * residence_s
    return math.ceil(mean + quantile * math.sqrt(mean))


def transfer_seconds(tokens: int, bytes_per_token: int, gbit_per_gpu: float) -> float:
    """Return the time that the KV cache of ``tokens`` takes at ``gbit_per_gpu``, every rank in parallel."""
    return tokens * bytes_per_token * 8 / (gbit_per_gpu * 1e9)
