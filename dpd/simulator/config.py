"""What one simulated worker is: its role, its sizes, its speed and its addresses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dpd.closed_model import ClosedModel

Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
NotNegative = Annotated[float, Field(ge=0)]


class SimulatorConfig(ClosedModel):
    """Describe one worker. The defaults are quick and small; they are not measurements of any GPU."""

    role: Literal["prefill", "decode", "worker"] = "worker"
    """`worker` serves alone, without a KV connector."""
    transport: Literal["nixl", "lmcache"] = "nixl"
    """Connector of `prefill` and `decode`."""
    host: str = "127.0.0.1"
    """Address of every socket that the worker binds."""
    port: Port = 0
    """HTTP; 0: a free one."""
    side_channel_port: Port = 0
    """Where pages are read and written, in place of RDMA; 0: a free one."""
    model: Annotated[str, Field(pattern=r"^[^@]+$")] = "tiny"
    """Served name. No `@`, at which LMCache splits its keys."""
    tensor_parallel: Count = 1
    """Ranks, each with a PD buffer and a notification of its own."""
    chunk_tokens: Count = 256
    """Tokens of one KV page: LMCache's chunk, or vLLM's block."""
    kv_blocks: Count = 4096
    """Blocks of `chunk_tokens` in the engine's own KV cache; requests wait for free ones."""
    pd_pages: Count = 1024
    """LMCache decoder: pages of one rank's PD buffer."""
    kv_bytes_per_token: Count = 2048
    """Counts vllm:nixl_bytes_transferred only."""
    max_model_len: Count = 16384
    """Tokens of prompt and answer."""
    max_num_seqs: Count = 256
    """Sequences that run at a time."""
    prefill_tokens_per_s: Annotated[float, Field(gt=0)] = 100_000.0
    """Speed at which the engine computes prompts, one after the other."""
    itl_ms: NotNegative = 5.0
    """Time of one engine step, in which every running sequence gets one token; 0: as fast as possible."""
    transfer_ms: NotNegative = 1.0
    """Time of the transfer of one request's pages."""
    natural_tokens: Count = 64
    """Length at which an answer ends by itself, unless the request says `ignore_eos`."""
    prefix_caching: bool = True
    """Do not compute again a prefix that is still among the last `kv_blocks` computed blocks."""
    kv_load_failure_policy: Literal["fail", "recompute"] = "fail"
    """What a NIXL decoder does where it cannot pull; the default is vLLM's."""
    kv_hold_timeout_s: Annotated[float, Field(gt=0)] = 480.0
    """How long a NIXL prefiller keeps blocks for a decoder: VLLM_NIXL_ABORT_REQUEST_TIMEOUT."""
    pd_proxy_host: str = "127.0.0.1"
    """LMCache prefiller: where notifications go."""
    pd_proxy_port: Port = 7500
    """LMCache prefiller: where notifications go."""
    init_ports: tuple[Port, ...] = ()
    """LMCache decoder: one port per rank; default: free ones."""
    alloc_ports: tuple[Port, ...] = ()
    """LMCache decoder: one port per rank; default: free ones."""
    hash_seed: int = 0
    """LMCache: PYTHONHASHSEED. Where it differs between the roles, no page is ever found."""
    allow_faults: bool = False
    """Take faults by POST /simulator/faults."""

    @model_validator(mode="after")
    def _fits(self) -> SimulatorConfig:
        for name in ("init_ports", "alloc_ports"):
            ports: tuple[int, ...] = getattr(self, name)
            if ports and len(ports) != self.tensor_parallel:
                raise ValueError(f"`{name}` needs one port for each of {self.tensor_parallel} ranks")
        blocks = -(-self.max_model_len // self.chunk_tokens)
        if blocks > self.kv_blocks:
            raise ValueError(
                f"one request of `max_model_len` {self.max_model_len} needs {blocks} blocks of"
                f" {self.chunk_tokens} tokens: set `kv_blocks` to at least that, got {self.kv_blocks}"
            )
        return self
