"""The schema of an environment on this machine: engines as processes, no AWS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dpd.closed_model import ClosedModel
from dpd.quantity import GIB, Bytes, Real, Whole, format_bytes
from dpd.spec.base_environment import KNOWN_BACKEND, BaseEnvironment


def _whole_gib(count: int) -> int:
    if not count or count % GIB:
        raise ValueError(f"wants whole GiB, as vLLM takes it, such as 1GiB; got {format_bytes(count)}")
    return count


class Local(ClosedModel):
    """Say how the processes run."""

    engine: Literal["vllm", "simulated"] = "vllm"
    """`vllm`: real engines on the CPU. `simulated`: stand-ins that compute nothing, for other machines."""
    router_port: Annotated[Whole, Field(ge=1, le=65535)] | None = None
    """Port of the router on 127.0.0.1; default: a free one."""
    kv_cache: Annotated[Bytes, AfterValidator(_whole_gib)] = GIB
    """Memory for KV cache of each engine, in whole GiB."""
    memory_reserve: Bytes = GIB
    """Memory that must stay free beside the engines."""
    ready_timeout_s: Annotated[Real, Field(gt=0, le=3600)] = 300
    """How long an engine may take to answer its health check."""


class LocalEnvironment(BaseEnvironment):
    """Describe the environment of this machine."""

    backend: Annotated[Literal["local"], KNOWN_BACKEND]
    local: Local = Local()
