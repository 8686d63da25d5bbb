"""The workers of one role: who has room, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dpd.router.breaker import Breaker
from dpd.router.failure import Failure
from dpd.router.worker import Endpoint, Role, Worker


class Length(StrEnum):
    """The classes of waiting prompts that take turns, so that no short one stands behind all long ones."""

    SHORT = "short"
    LONG = "long"
    PAGES = "pages"
    """Long prompts that wait for KV pages, which those that have some free: never in front of these."""


Choose = Callable[[Sequence[Worker]], Worker]


def least_loaded(workers: Sequence[Worker]) -> Worker:
    """Return the worker with the fewest KV pages and running requests; the name decides a draw."""
    return min(workers, key=lambda worker: (worker.load, worker.name))


@dataclass(frozen=True, slots=True)
class Demand:
    """Say what a request needs of a worker. ``only`` binds it to one."""

    length: Length
    slots: int = 1
    pages: int = 0
    choose: Choose = least_loaded
    only: Worker | None = None
    avoid: frozenset[Worker] = frozenset()


@dataclass(slots=True)
class Lease:
    """Hold room at a worker until ``release``; a second release does nothing. A context manager."""

    pool: Pool
    worker: Worker
    slots: int
    pages: int
    trial: bool

    def release(self) -> None:
        """Give the room back."""
        self.worker.running -= self.slots
        self.worker.pages -= self.pages
        self.slots = self.pages = 0
        if self.trial:
            self.trial = False
            self.worker.breaker.end_trial()
        self.pool.serve()

    def __enter__(self) -> Worker:
        return self.worker

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class _Waiter:
    demand: Demand
    lease: asyncio.Future[Lease]


@dataclass(frozen=True, slots=True)
class Room:
    """Bound what one worker of a pool holds. ``pages`` of None: any number."""

    slots: int
    pages: int | None
    queue_length: int
    queue_timeout_s: float


@dataclass(slots=True)
class Pool:
    """Lease room at workers, in order of arrival within each class, the classes taking turns."""

    role: Role
    room: Room
    new_breaker: Callable[[], Breaker]
    workers: dict[Endpoint, Worker] = field(default_factory=dict[Endpoint, Worker])
    _waiting: dict[Length, deque[_Waiter]] = field(
        default_factory=lambda: {length: deque[_Waiter]() for length in Length}
    )
    _turns: deque[Length] = field(default_factory=lambda: deque(Length))

    def update(self, endpoints: Iterable[Endpoint]) -> tuple[list[Worker], list[Worker]]:
        """Take over what discovery found; return the workers that came and those that left."""
        found = set(endpoints)
        left = [self.workers.pop(endpoint) for endpoint in set(self.workers) - found]
        for worker in left:
            worker.gone = True
        came = [
            Worker(self.role, endpoint, self.new_breaker())
            for endpoint in sorted(found - set(self.workers), key=lambda one: one.url)
        ]
        self.workers.update({worker.endpoint: worker for worker in came})
        return came, left

    def waiting(self, length: Length) -> int:
        """Return how many requests of a class wait."""
        return len(self._waiting[length])

    def usable(self) -> list[Worker]:
        """Return the workers that a request may use now.

        Decoders that real traffic ejected are used all the same where no other is left and their health
        checks succeed: one client's poisonous request must not close the service for everybody.
        """
        healthy = [worker for worker in self.workers.values() if worker.healthy]
        allowed = [worker for worker in healthy if worker.breaker.allows()]
        return allowed or (healthy if self.role is Role.DECODE else [])

    def fits(self, pages: int) -> bool:
        """Tell whether an empty worker would have room for ``pages``."""
        return self.room.pages is None or pages <= self.room.pages

    async def acquire(self, demand: Demand, *, admitted: bool = False) -> Lease:
        """Wait for room.

        Raises Failure: 429 where the queue is full and the request was not ``admitted`` before, 503 after
        ``queue_timeout_s``.
        """
        lease = None if self._waiting[demand.length] else self._place(demand)
        if lease is not None:
            return lease
        if not admitted and sum(map(len, self._waiting.values())) >= self.room.queue_length:
            raise Failure(429, "queue_full", "too many requests wait; try again later", self._retry_after_s())
        waiter = _Waiter(demand, asyncio.get_running_loop().create_future())
        self._waiting[demand.length].append(waiter)
        self.serve()
        try:
            async with asyncio.timeout(self.room.queue_timeout_s):
                return await waiter.lease
        except BaseException as error:
            self._withdraw(waiter)
            if isinstance(error, TimeoutError):
                raise self._too_late() from None
            raise

    def _withdraw(self, waiter: _Waiter) -> None:
        """Leave the queue; room that was given in the same moment goes to the next."""
        waiting = self._waiting[waiter.demand.length]
        if waiter in waiting:
            waiting.remove(waiter)
        elif not waiter.lease.cancelled() and waiter.lease.exception() is None:
            waiter.lease.result().release()

    def _too_late(self) -> Failure:
        if not self.usable():
            return self._no_worker()
        message = f"no room at a {self.role} worker within {self.room.queue_timeout_s:g} s"
        return Failure(503, "queue_timeout", message, self._retry_after_s())

    def _no_worker(self) -> Failure:
        message = f"no {self.role} worker is healthy"
        return Failure(503, f"no_{self.role}_worker", message, self._retry_after_s())

    def _retry_after_s(self) -> int:
        """Return a second for each full round of what waits, from 1 to 30."""
        slots = self.room.slots * max(1, len(self.usable()))
        return min(30, 1 + sum(map(len, self._waiting.values())) // slots)

    def serve(self) -> None:
        """Give room to those who wait, as far as there is any; called whenever some came free."""
        if self.role is Role.PREFILL:
            self._refuse_hopeless()
        stuck = 0
        while stuck < len(self._turns):
            waiting = self._waiting[self._turns[0]]
            self._turns.rotate(-1)
            while waiting and waiting[0].lease.cancelled():
                waiting.popleft()
            lease = self._place(waiting[0].demand) if waiting else None
            if lease is None:
                stuck += 1
            else:
                stuck = 0
                waiting.popleft().lease.set_result(lease)

    def _refuse_hopeless(self) -> None:
        """Without a prefiller left to try there is nothing to wait for: a decoder does the work."""
        usable = set(self.usable())
        for waiting in self._waiting.values():
            for waiter in [waiter for waiter in waiting if usable <= waiter.demand.avoid]:
                waiting.remove(waiter)
                if not waiter.lease.cancelled():
                    waiter.lease.set_exception(self._no_worker())

    def _place(self, demand: Demand) -> Lease | None:
        candidates = [worker for worker in self._candidates(demand) if self._has_room(worker, demand)]
        if not candidates:
            return None
        worker = demand.choose(candidates)
        worker.running += demand.slots
        worker.pages += demand.pages
        trial = demand.slots > 0 and worker.breaker.begin()
        return Lease(self, worker, demand.slots, demand.pages, trial)

    def _candidates(self, demand: Demand) -> Sequence[Worker]:
        if demand.only is not None:
            return [demand.only]
        return [worker for worker in self.usable() if worker not in demand.avoid]

    def _has_room(self, worker: Worker, demand: Demand) -> bool:
        slots = not demand.slots or worker.running < self.room.slots
        pages = self.room.pages is None or worker.pages + demand.pages <= self.room.pages
        return slots and pages
