"""What the engine asks of a KV connector, and the connector of a worker that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpd.simulator.generation import Generation, Sampling
from dpd.simulator.prompt import Prompt


@dataclass(slots=True, eq=False)
class Job:
    """Hold one sequence on its way through the engine."""

    prompt: Prompt
    sampling: Sampling
    kv_params: Mapping[str, Any]
    contents: Sequence[bytes]
    """What each page of the prompt holds when it is right."""
    blocks: list[int] = field(default_factory=list[int])
    """The engine's own blocks; a connector that keeps them takes them out."""
    loaded: bool = False
    """Whether ``Connector.load`` is over."""
    generation: Generation = field(default_factory=lambda: Generation(b"", (), "abort"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold the leading pages that came from elsewhere, and the prompt tokens they spare."""

    contents: Sequence[bytes] = ()
    tokens: int = 0


class Connector:
    """Move nothing."""

    @property
    def used_pages(self) -> tuple[int, ...]:
        """Return the pages taken in each rank's PD buffer."""
        return ()

    @property
    def held_requests(self) -> int:
        """Return how many finished requests wait for a decoder's pull."""
        return 0

    @property
    def held_blocks(self) -> int:
        """Return their blocks."""
        return 0

    @property
    def ports(self) -> dict[str, object]:
        """Return the bound ports, by their names in SimulatorConfig."""
        return {}

    async def start(self) -> None:
        """Bind what others connect to."""

    async def close(self) -> None:
        """Forget everything, as a process that ends does."""

    async def load(self, job: Job) -> Loaded:
        """Fetch pages of the prompt before it is computed."""
        return Loaded()

    async def save(self, job: Job) -> None:
        """Do what belongs to the step that computed the prompt."""

    async def abandon(self, job: Job) -> None:
        """Do the part of ``save`` that is done when the worker dies amid it."""

    def finish(self, job: Job) -> dict[str, Any] | None:
        """Return the `kv_transfer_params` of the answer."""

    def abort(self, job: Job) -> None:
        """Take note that the client gave the request up."""
