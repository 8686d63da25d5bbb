"""Whether a long prompt was disaggregated and a short one not: by headers, and by everybody's counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dpd.finding import Finding
from dpd.ops.verify.check import Check, error
from dpd.ops.verify.counters import PROMPT_TOKENS, REQUESTS
from dpd.ops.verify.probe import Observation
from dpd.ops.verify.target import Target

_REASON: Final = "x-dpd-reason"
_HOPS: Final = {"prefill": "x-dpd-prefiller", "decode": "x-dpd-decoder"}
_FIX: Final = "see the reasons in docs/router.md, and the logs of router and workers"
_FIXES: Final = {
    "short_prompt": "the router's threshold is above it: set dpd.routing.threshold_tokens and deploy again",
    "long_prompt": "the router's threshold is under it: set dpd.routing.threshold_tokens and deploy again",
    "no_prefiller": "no prefiller is healthy: see their logs",
    "no_kv": "the prefiller's engine lacks --kv-transfer-config: deploy again",
}
"""By the router's reason."""


def check_long(target: Target, seen: Observation) -> Check:
    """Demand that a prefiller computed the prompt, and that router and prefiller counted that."""
    findings = [*_path_findings("VER004", "disaggregated", seen)]
    if not findings:
        findings += _hop_findings(target, seen)
        findings += _prefilled(seen)
    return Check("long_prompt", route(target, seen), tuple(findings))


def check_short(target: Target, seen: Observation) -> Check:
    """Demand that a decoder did all of it, and that no prefiller counted anything."""
    findings = [*_path_findings("VER005", "bypass", seen)]
    counted = seen.prefill.total(PROMPT_TOKENS)
    if seen.quiet and counted > 0:
        message = f"prefillers counted {counted:.0f} tokens during a prompt that went past them"
        findings.append(_error("VER005", "prefill", message, f"{counted:.0f}", "0"))
    return Check("short_prompt", route(target, seen), tuple(findings))


def route(target: Target, seen: Observation) -> str:
    """Say which way a request took."""
    headers = seen.answer.headers
    hops = [headers[header] for header in _HOPS.values() if headers.get(header)]
    names = " -> ".join(worker.name if (worker := target.at(hop)) else hop for hop in hops)
    reason = headers.get(_REASON, "no reason")
    return f"{seen.answer.prompt_tokens} tokens, {seen.path or 'no path'} ({reason}): {names or 'nobody'}"


def _path_findings(id: str, wanted: str, seen: Observation) -> Iterator[Finding]:
    answer, tokens = seen.answer, seen.answer.prompt_tokens
    if not answer.complete:
        yield _error(id, "router", f"no whole answer: {answer.problem}", answer.problem, wanted)
        return
    path, reason = seen.path or "none", answer.headers.get(_REASON, "none")
    if path != wanted:
        message = f"took a prompt of {tokens} tokens the path {path}, reason {reason}"
        yield _error(id, "router", message, path, wanted, _FIXES.get(reason, _FIX))
    elif seen.router.total(REQUESTS, path=wanted) < 1:
        yield _error(id, "router", f"says {wanted} and has not counted it in {REQUESTS}", "0", "1 or more")


def _hop_findings(target: Target, seen: Observation) -> Iterator[Finding]:
    for role, header in _HOPS.items():
        address = seen.answer.headers.get(header, "")
        worker = target.at(address)
        if worker is None or worker.role != role:
            got = worker.name if worker else address or "nobody"
            yield _error("VER004", "router", f"says in {header} that {got} did the {role}", got, role)


def _prefilled(seen: Observation) -> Iterator[Finding]:
    counted, tokens = seen.prefill.total(PROMPT_TOKENS), seen.answer.prompt_tokens
    if counted < tokens:
        message = f"prefillers counted {counted:.0f} of the prompt's {tokens} tokens"
        yield _error("VER004", "prefill", message, f"{counted:.0f}", f"{tokens} or more")


def _error(id: str, where: str, message: str, got: str, allowed: str, fix: str = _FIX) -> Finding:
    return error(id, where, message, got=got, allowed=allowed, fix=fix)
