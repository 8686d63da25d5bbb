"""What shall run and what runs, as two JSON files with one writer each."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal, TypeVar

from dpd.closed_model import ClosedModel
from dpd.spec.engine_deployment import RoleName

ProcessRole = RoleName | Literal["router"]
Engine = Literal["vllm", "simulated"]


class ProcessSpec(ClosedModel):
    """Say how one process is started and when it is well."""

    name: str
    """Role and number, such as `prefill-0`, or `router`."""
    role: ProcessRole
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    """Variables on top of the supervisor's."""
    files: dict[str, str] = {}
    """Path to content, written before each start."""
    url: str
    health_path: str = "/health"
    ready_timeout_s: float
    """How long a start may take until `health_path` answers 200."""


class Desired(ClosedModel):
    """Say what shall run in one environment."""

    environment: str
    model: str
    engine: Engine
    ports: dict[str, int]
    """Port by use, such as `prefill-0` and `prefill-0 nixl`; kept over restarts and changes."""
    processes: tuple[ProcessSpec, ...]

    @property
    def digest(self) -> str:
        """Return what tells two of these apart."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class ProcessIdentity(ClosedModel):
    """Name a process so that a recycled pid is not taken for it."""

    pid: int
    created: float
    """Start time in seconds since the epoch, as the operating system tells it."""


class ProcessState(ClosedModel):
    """Say how one process does."""

    name: str
    identity: ProcessIdentity | None = None
    """The leash of the running command; none while it waits to be started again."""
    restarts: int = 0
    ready: bool = False
    exit_code: int | None = None
    """How it last ended; 128 + N after signal N."""


class SystemState(ClosedModel):
    """Say what runs in one environment."""

    supervisor: ProcessIdentity
    applied: str | None
    """Digest of what every process now runs as desired; none during a change."""
    processes: tuple[ProcessState, ...]


Document = TypeVar("Document", bound=ClosedModel)


def write(path: Path, document: ClosedModel) -> None:
    """Replace ``path`` at once: a reader sees the old or the new text, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(document.model_dump_json(indent=1), encoding="utf-8")
    scratch.replace(path)


def read(path: Path, kind: type[Document]) -> Document | None:
    """Return the document in ``path``, or None where there is no file."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
