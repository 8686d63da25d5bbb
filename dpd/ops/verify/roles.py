"""Whether workers are what the configuration says: as the router sees them, and as they say themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dpd.finding import Finding
from dpd.ops.verify.check import Check, error, no_answer
from dpd.ops.verify.probe import NoAnswer, Probe
from dpd.ops.verify.target import Target, TargetWorker
from dpd.spec.engine_deployment import RoleName

_HASH_SEED: Final = "PYTHONHASHSEED"
_DEPLOY: Final = "deploy again; or verify with the same --set and --model as the deploy"


async def check_ready(probe: Probe) -> Check:
    """Demand that the router takes requests."""
    try:
        await probe.text(f"{probe.target.router_url}/ready")
    except NoAnswer as reason:
        return Check("ready", str(reason), (no_answer("router", reason),))
    return Check("ready", "the router takes requests")


async def check_roles(probe: Probe) -> Check:
    """Compare the router's workers and threshold, and each worker's model and arguments, with the target."""
    target, findings = probe.target, list[Finding]()
    for found in await asyncio.gather(*(_worker_findings(probe, worker) for worker in target.workers)):
        findings += found
    try:
        routed = await probe.state(f"{target.router_url}/debug/workers")
    except NoAnswer as reason:
        return Check("roles", str(reason), (*findings, no_answer("router", reason)))
    findings += _router_findings(target, routed)
    usable = [f"{row['role']} {row['url']}" for row in routed["workers"] if row["usable"]]
    return Check("roles", f"the router uses {', '.join(usable) or 'no worker'}", tuple(findings))


def check_hash_seeds(target: Target) -> Check:
    """Demand one fixed PYTHONHASHSEED of all processes: LMCache's keys are hashes of it."""
    started = {worker.name: worker.variables for worker in target.workers if worker.variables is not None}
    if not started:
        return Check("hash_seed", "no process runs", judged=False)
    seeds = {name: variables.get(_HASH_SEED, "") for name, variables in started.items()}
    shown = ", ".join(f"{name}: {seed or 'none'}" for name, seed in seeds.items())
    # Simulated workers hash nothing.
    random = target.engine != "simulated" and not all(seed.isdigit() for seed in seeds.values())
    findings: tuple[Finding, ...] = ()
    if random or len(set(seeds.values())) > 1:
        finding = error(
            "VER003",
            ", ".join(seeds),
            f"processes run with {_HASH_SEED} {shown}: keys of one KV cache differ between them",
            got=seeds,
            allowed="one fixed integer, the same for all",
            fix=f"take {_HASH_SEED} out of dpd.environment and of what starts the processes; deploy again",
        )
        findings = (finding,)
    return Check("hash_seed", f"{_HASH_SEED} {shown}", findings)


def _router_findings(target: Target, routed: Mapping[str, Any]) -> Iterator[Finding]:
    threshold = routed["threshold_tokens"]
    if threshold != target.threshold_tokens:
        yield error(
            "VER001",
            "router",
            f"routes by a threshold of {threshold} tokens, configured are {target.threshold_tokens}",
            got=threshold,
            allowed=target.threshold_tokens,
            fix=_DEPLOY,
        )
    rows = {str(row["url"]): row for row in routed["workers"]}
    for role, count in target.replicas.items():
        workers = target.of_role(role)
        if len(workers) != count:
            yield error(
                "VER001",
                role,
                f"{len(workers)} are deployed, configured are {count}",
                got=len(workers),
                allowed=count,
                fix=_DEPLOY,
            )
        for worker in workers:
            yield from _routed_as(worker, _router_role(role), rows.get(worker.url))


def _router_role(role: RoleName) -> str:
    """Return what the router calls a worker: one that serves alone is a decoder to it."""
    return "prefill" if role == "prefill" else "decode"


def _routed_as(worker: TargetWorker, role: str, row: Mapping[str, Any] | None) -> Iterator[Finding]:
    seen = "not at all" if row is None else str(row["role"])
    if seen != role:
        yield error(
            "VER001",
            worker.name,
            f"the router uses it as {seen}" if row else "the router does not know it",
            got=seen,
            allowed=role,
            fix="mend `workers` in the router's configuration, and deploy again",
        )
    elif row is not None and not row["usable"]:
        state = "ejected" if row["ejected"] else "not healthy"
        yield error(
            "VER001",
            worker.name,
            f"the router does not use it: it is {state}",
            got=state,
            allowed="usable",
            fix="see the worker's log; it is used again once its health checks succeed",
        )


async def _worker_findings(probe: Probe, worker: TargetWorker) -> list[Finding]:
    findings: list[Finding] = []
    stated = worker.stated_role
    if stated and stated != worker.role:
        findings.append(_wrong(worker, "its arguments make it", stated, worker.role))
    if probe.target.disaggregated and worker.arguments and not worker.transfers_kv:
        findings.append(_wrong(worker, "its arguments have", "no KV connector", "--kv-transfer-config"))
    try:
        models = await probe.state(f"{worker.url}/v1/models")
    except NoAnswer as reason:
        return [*findings, no_answer(worker.name, reason)]
    served = [str(row["id"]) for row in models["data"]]
    if probe.target.model not in served:
        findings.append(_wrong(worker, "it serves", ", ".join(served), probe.target.model))
    return findings


def _wrong(worker: TargetWorker, says: str, got: str, allowed: str) -> Finding:
    message = f"{says} {got}, configured is {allowed}"
    return error("VER002", worker.name, message, got=got, allowed=allowed, fix=_DEPLOY)
