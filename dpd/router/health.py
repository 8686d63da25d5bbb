"""Ask every worker again and again whether it lives."""

from __future__ import annotations

import asyncio
import logging

from dpd.router.config import Workers
from dpd.router.failure import WorkerFailure, WorkerRefused
from dpd.router.pool import Pool
from dpd.router.strategies import Strategy
from dpd.router.upstream import Upstream
from dpd.router.worker import Role, Worker

_log = logging.getLogger("dpd.router.health")
_OK = 200


class HealthChecks:
    """Keep ``healthy`` of each worker true to what its `/health` says.

    Nothing else is ever sent to an idle prefiller: LMCache 0.4.3's dies of a plain request. A worker that
    refuses connections is down at once, one that does not answer after ``failures_to_eject`` checks.
    """

    def __init__(self, config: Workers, upstream: Upstream, strategy: Strategy) -> None:
        self._config = config
        self._upstream = upstream
        self._strategy = strategy
        self._tasks: dict[Worker, asyncio.Task[None]] = {}

    def follow(self, pool: Pool, came: list[Worker], left: list[Worker]) -> None:
        """Begin to ask those who came, and forget those who left."""
        for worker in came:
            self._tasks[worker] = asyncio.create_task(self._watch(pool, worker))
        for worker in left:
            self._tasks.pop(worker).cancel()
            worker.healthy = False
            self._forget(worker)
        pool.serve()

    async def close(self) -> None:
        """Stop asking."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _watch(self, pool: Pool, worker: Worker) -> None:
        while True:
            await self._check(worker)
            worker.checked = True
            pool.serve()
            await asyncio.sleep(self._config.health_interval_s)

    async def _check(self, worker: Worker) -> None:
        why = ""
        at_once = False
        try:
            status = await self._upstream.get(f"{worker.url}/health", self._config.health_timeout_s)
            why = "" if status == _OK else f"/health answers {status}"
        except WorkerFailure as failure:
            why, at_once = failure.detail, isinstance(failure, WorkerRefused)
        worker.why = why
        if not why:
            self._up(worker)
            return
        worker.failed_checks += 1
        if not worker.checked:
            _log.warning("worker is not up yet", extra=_details(worker))
        if worker.healthy and (at_once or worker.failed_checks >= self._config.failures_to_eject):
            _log.warning("worker is down", extra=_details(worker))
            worker.lose()
            self._forget(worker)

    def _up(self, worker: Worker) -> None:
        worker.failed_checks = 0
        if not worker.healthy:
            _log.info("worker is up", extra={"worker": worker.name, "role": worker.role})
            worker.healthy = True

    def _forget(self, worker: Worker) -> None:
        """Drop what the strategy knows: a worker that comes back has an empty cache."""
        if worker.role is Role.PREFILL:
            self._strategy.forget(worker)


def _details(worker: Worker) -> dict[str, str]:
    return {"worker": worker.name, "role": worker.role, "why": worker.why}
