"""The ways in which a worker can fail, and which of them are set."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from dpd.closed_model import ClosedModel


class FaultKind(StrEnum):
    """Name one way to fail."""

    REFUSE_CONNECTIONS = "refuse_connections"
    """Nothing listens on the HTTP port for ``delay_s``; 0: until cleared. Requests over connections that
    were open before are reset; those under way go on."""
    HANG = "hang"
    """A request is read, and never answered, not even with headers."""
    SLOW_PREFILL = "slow_prefill"
    """The prompt takes ``delay_s`` more, and so do those behind it."""
    ERROR_STATUS = "error_status"
    """A request is answered with ``status``, while /health stays 200."""
    DIE_MID_PREFILL = "die_mid_prefill"
    """The connection is reset without an answer, in LMCache between allocation and write."""
    DIE_MID_STREAM = "die_mid_stream"
    """The connection is reset after ``after_chunks`` tokens."""
    STALL_MID_STREAM = "stall_mid_stream"
    """Nothing follows after ``after_chunks`` tokens, and the connection stays open."""
    LOSE_NOTIFICATION = "lose_notification"
    """LMCache: ``ranks`` write their pages, and say nothing."""
    LATE_NOTIFICATION = "late_notification"
    """LMCache: ``ranks`` notify ``delay_s`` after the write."""
    EARLY_NOTIFICATION = "early_notification"
    """LMCache: ``ranks`` notify ``delay_s`` before the write."""
    FULL_BUFFER = "full_buffer"
    """LMCache decoder: no page is free. Holds until cleared; ``requests`` has no effect."""
    WRONG_ENGINE_ID = "wrong_engine_id"
    """NIXL prefiller: answers name an engine that is gone."""
    IGNORE_KV = "ignore_kv"
    """The decoder does not look for pages, and computes the prompt: the right text, and nothing moved."""
    WRONG_TEXT = "wrong_text"
    """The answer is that to another prompt."""
    MALFORMED_JSON = "malformed_json"
    """The answer, or one event of its stream, is cut off and yet ends regularly."""
    LYING_HEALTH = "lying_health"
    """/health answers 200 while the engine is dead."""
    OVERSIZED_CHUNKS = "oversized_chunks"
    """Every event, or the answer, is larger by ``chunk_bytes``."""
    ENGINE_DEATH = "engine_death"
    """The engine dies of the request: 500 from then on, and 503 from /health."""


class Fault(ClosedModel):
    """Set one way to fail, for the next ``requests`` requests or until it is cleared."""

    kind: FaultKind
    requests: Annotated[int, Field(ge=1)] | None = None
    delay_s: Annotated[float, Field(ge=0)] = 0.0
    after_chunks: Annotated[int, Field(ge=0)] = 3
    status: Annotated[int, Field(ge=400, le=599)] = 500
    ranks: tuple[int, ...] | None = None
    """Default: all."""
    chunk_bytes: Annotated[int, Field(ge=0)] = 2**20
    whole_worker: bool = False
    """`die_*`: not only the connection, the worker goes."""

    def concerns(self, rank: int) -> bool:
        """Tell whether the fault is one of this rank."""
        return self.ranks is None or rank in self.ranks


class Faults:
    """Hold the faults that are set, at most one of a kind; ``changed`` is called after every change."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._set: dict[FaultKind, tuple[Fault, int | None]] = {}
        self._changed = changed

    def add(self, fault: Fault) -> None:
        """Set a fault; it takes the place of another of its kind."""
        self._set[fault.kind] = (fault, fault.requests)
        self._changed()

    def clear(self, kind: FaultKind | None = None) -> None:
        """Take one kind back, or all."""
        if kind is None:
            self._set.clear()
        else:
            self._set.pop(kind, None)
        self._changed()

    def active(self, kind: FaultKind) -> Fault | None:
        """Return the fault of this kind, without counting."""
        found = self._set.get(kind)
        return found[0] if found else None

    def take(self, kind: FaultKind) -> Fault | None:
        """Return the fault of this kind, and count one request."""
        if kind not in self._set:
            return None
        fault, left = self._set[kind]
        if left == 1:
            del self._set[kind]
        elif left is not None:
            self._set[kind] = (fault, left - 1)
        return fault

    def all(self) -> list[Fault]:
        """Return what is set, with the requests that are left to it."""
        return [fault.model_copy(update={"requests": left}) for fault, left in self._set.values()]
