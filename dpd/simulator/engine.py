"""The engine: admits sequences, gets their prompts' KV cache, and lets them decode in steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.connector import Connector, Job, Loaded
from dpd.simulator.counters import Counters, Load
from dpd.simulator.errors import Died, EngineDead
from dpd.simulator.faults import FaultKind, Faults
from dpd.simulator.generation import Sampling, generate
from dpd.simulator.prefix_cache import PrefixCache
from dpd.simulator.prompt import Prompt
from dpd.simulator.scheduler import Scheduler
from dpd.simulator.step_clock import StepClock
from dpd.simulator.tasks import Tasks


class Engine:
    """Run sequences. ``death`` says why the engine is dead, empty while it lives."""

    def __init__(
        self,
        config: SimulatorConfig,
        faults: Faults,
        counters: Counters,
        scheduler: Scheduler,
        connector: Connector,
    ) -> None:
        self._config = config
        self._faults = faults
        self._counters = counters
        self._scheduler = scheduler
        self._connector = connector
        self._clock = StepClock(config.itl_ms / 1000)
        self._prefixes = PrefixCache(config.kv_blocks if config.prefix_caching else 0)
        self._computing = asyncio.Lock()
        self._steps = Tasks()
        self._requests: set[asyncio.Task[Any]] = set()
        self.death = ""

    @property
    def load(self) -> Load:
        """Return what is held at this moment."""
        return Load(
            running=self._scheduler.running,
            waiting=self._scheduler.waiting,
            usage=self._scheduler.usage,
            held_requests=self._connector.held_requests,
            held_blocks=self._connector.held_blocks,
            used_pages=self._connector.used_pages,
        )

    async def close(self) -> None:
        """End every request."""
        self.die("shut down")
        await self._steps.close()

    def die(self, cause: str) -> None:
        """End every request with EngineDead, those to come too."""
        self.death = self.death or cause
        for request in self._requests:
            request.cancel()

    @asynccontextmanager
    async def prefilled(
        self, prompt: Prompt, sampling: Sampling, kv_params: Mapping[str, Any]
    ) -> AsyncGenerator[Job]:
        """Give the sequence once its prompt is computed or loaded; it holds its slot until the block ends.

        Raises EngineDead, Died by a fault, ApiError where its KV cache can not be loaded.
        """
        job = Job(prompt, sampling, kv_params, prompt.contents(self._config.chunk_tokens))
        with self._alive(job):
            job.blocks = await self._scheduler.admit(len(job.contents))
            try:
                await self._prefill(job)
                yield job
            finally:
                self._scheduler.leave(job.blocks)

    async def decode(self, job: Job, frames: Sequence[bytes], write: Callable[[bytes], None]) -> None:
        """Write one frame per step."""
        await self._clock.play(frames, write)
        self._counters.generation_tokens += len(job.generation.token_ids)

    def finish(self, job: Job) -> dict[str, Any] | None:
        """Count a sequence that ended by itself, and return the `kv_transfer_params` of its answer."""
        self._counters.success[job.generation.finish_reason] += 1
        return self._connector.finish(job)

    @contextmanager
    def _alive(self, job: Job) -> Generator[None]:
        """Raise EngineDead out of the block when the engine dies; note when the client goes."""
        if self.death:
            raise EngineDead(self.death)
        request = asyncio.current_task()
        assert request is not None  # noqa: S101 - there is one in every coroutine
        self._requests.add(request)
        try:
            yield
        except asyncio.CancelledError:
            if self.death:
                request.uncancel()
                raise EngineDead(self.death) from None
            self._counters.success["abort"] += 1
            self._connector.abort(job)
            raise
        finally:
            self._requests.discard(request)

    async def _prefill(self, job: Job) -> None:
        if self._faults.take(FaultKind.ENGINE_DEATH):
            self.die("killed by a fault")
            await asyncio.sleep(0)  # ends here
        loaded = Loaded()
        if not self._faults.take(FaultKind.IGNORE_KV):
            loaded = await self._connector.load(job)
        job.loaded = True
        await self._computing.acquire()
        # A step that runs is not stopped by a client that goes.
        step = self._steps.start(self._step(job, loaded))
        step.add_done_callback(lambda _: self._computing.release())
        await asyncio.shield(step)

    async def _step(self, job: Job, loaded: Loaded) -> None:
        hits = 0 if loaded.tokens else self._prefixes.hits(job.contents)
        total = len(job.prompt.token_ids)
        cached = min(hits * self._config.chunk_tokens, total - 1)
        compute = total - loaded.tokens - cached
        slow = self._faults.take(FaultKind.SLOW_PREFILL)
        seconds = compute / self._config.prefill_tokens_per_s + (slow.delay_s if slow else 0.0)
        death = self._faults.take(FaultKind.DIE_MID_PREFILL)
        await self._compute(seconds / 2 if death else seconds)
        try:
            if death:
                await self._connector.abandon(job)
                raise Died(death)
            await self._connector.save(job)
        except EngineDead as error:
            self.die(error.cause)
            raise
        if not loaded.tokens:
            self._prefixes.remember(job.contents)
        for source, tokens in (
            ("local_compute", compute),
            ("local_cache_hit", cached),
            ("external_kv_transfer", loaded.tokens),
        ):
            self._counters.prompt_tokens[source] += tokens
        context = [*loaded.contents, *job.contents[len(loaded.contents) :]]
        if self._faults.take(FaultKind.WRONG_TEXT):
            context.append(b"wrong")
        job.generation = generate(context, job.sampling)

    async def _compute(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.stall(seconds)
            await asyncio.sleep(seconds)
