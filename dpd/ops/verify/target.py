"""What is verified: a router, workers behind it, and what the configuration says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dpd.spec.engine_deployment import RoleName


@dataclass(frozen=True, slots=True)
class TargetWorker:
    """Name one worker, where it answers, and how its process was really started.

    ``arguments`` and ``variables`` are empty where no process runs.
    """

    name: str
    role: RoleName
    url: str
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] | None = None

    @property
    def address(self) -> str:
        """Return `host:port`, as the router's headers show it."""
        return urlsplit(self.url).netloc

    @property
    def stated_role(self) -> str:
        """Return the role that its arguments state; empty where they state none, or both."""
        if "--role" in self.arguments:
            return _value(self.arguments, "--role")
        transfer: Any = json.loads(_value(self.arguments, "--kv-transfer-config") or "{}")
        return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(transfer.get("kv_role"), "")

    @property
    def transfers_kv(self) -> bool:
        """Tell whether its arguments give it a KV connector."""
        return bool(_value(self.arguments, "--kv-transfer-config") or self.stated_role)


@dataclass(frozen=True, slots=True)
class Target:
    """Hold one deployed model. Every back-end that can fill this in can be verified."""

    environment: str
    model: str
    engine: str
    """`simulated` where nothing is computed."""
    transport: str
    router_url: str
    threshold_tokens: int
    max_model_len: int
    replicas: Mapping[RoleName, int]
    """Workers of each role, by the configuration."""
    workers: tuple[TargetWorker, ...]

    @property
    def disaggregated(self) -> bool:
        """Tell whether prefill and decode run on separate pools."""
        return "prefill" in self.replicas

    @property
    def decoders(self) -> tuple[TargetWorker, ...]:
        """Return the workers that answer: of the role decode, or all where nothing is disaggregated."""
        return tuple(worker for worker in self.workers if worker.role != "prefill")

    def of_role(self, role: RoleName) -> tuple[TargetWorker, ...]:
        """Return the workers of one role."""
        return tuple(worker for worker in self.workers if worker.role == role)

    def at(self, address: str) -> TargetWorker | None:
        """Return the worker that answers at `host:port`."""
        return next((worker for worker in self.workers if worker.address == address), None)


def _value(arguments: Sequence[str], flag: str) -> str:
    """Return what follows a flag, or what stands after its `=`; empty where it is not there."""
    for index, argument in enumerate(arguments):
        if argument == flag:
            return arguments[index + 1] if index + 1 < len(arguments) else ""
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return ""
