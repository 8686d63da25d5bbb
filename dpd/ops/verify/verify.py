"""Run every check against one target, the later ones too where an earlier one fails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from dpd.finding import Finding, Severity
from dpd.ops.openai_client import Answer, Question
from dpd.ops.verify.answers import Pair, check_forms, check_identity, check_streaming, is_burst
from dpd.ops.verify.check import Check, no_answer
from dpd.ops.verify.counters import REQUESTS
from dpd.ops.verify.kv_transfer import check_kv_transfer
from dpd.ops.verify.paths import check_long, check_short
from dpd.ops.verify.probe import NoAnswer, Observation, Probe
from dpd.ops.verify.prompts import long_prompt, short_prompt
from dpd.ops.verify.roles import check_hash_seeds, check_ready, check_roles
from dpd.ops.verify.target import Target

_ANSWER_TOKENS: Final = 32
_STREAM_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Report:
    """Hold what was verified."""

    target: Target
    checks: tuple[Check, ...]

    @property
    def findings(self) -> list[Finding]:
        """Return what is wrong, in the order of the checks."""
        return [finding for check in self.checks for finding in check.findings]

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        target = self.target
        return {
            "environment": target.environment,
            "model": target.model,
            "engine": target.engine,
            "router_url": target.router_url,
            "checks": [check.to_json() for check in self.checks],
            "findings": [finding.to_json() for finding in self.findings],
        }


async def verify(target: Target) -> Report:
    """Return what every check saw. Sends ten requests of 32 tokens each."""
    async with Probe(target) as probe:
        ready = await check_ready(probe)
        checks = [ready, await check_roles(probe), check_hash_seeds(target)]
        try:
            if ready.outcome == "passed":
                checks += await _path_checks(probe)
                checks += await _answer_checks(probe)
        except NoAnswer as reason:
            checks.append(Check("requests", "the router fell silent", (no_answer("router", reason),)))
    return Report(target, tuple(checks))


async def _path_checks(probe: Probe) -> list[Check]:
    """Follow one long and one short prompt; nothing is to follow where one pool does everything."""
    target = probe.target
    if not target.disaggregated:
        return []
    long = await probe.observe(lambda: Question(long_prompt(target), _ANSWER_TOKENS))
    short = await probe.observe(lambda: Question(short_prompt(), _ANSWER_TOKENS))
    checks = [check_long(target, long), check_short(target, short), check_kv_transfer(target.transport, long)]
    return checks if long.quiet and short.quiet else [*checks, _busy(long)]


async def _answer_checks(probe: Probe) -> list[Check]:
    """Ask one long prompt in each form of the API, of the router and of a decoder."""
    prompt, decoder = long_prompt(probe.target), probe.target.decoders[0].url
    alone = Answer(finish_reason="not asked yet")
    pairs: list[Pair] = []
    for chat, stream in product((False, True), (False, True)):
        question = Question(prompt, _ANSWER_TOKENS, chat=chat, stream=stream)
        routed = await _routed(probe, question)
        # One that does not answer may take as long each time.
        alone = await probe.ask(question, decoder) if alone.complete else alone
        pairs.append(Pair(question, routed, alone))
    streams = [pair.routed for pair in pairs if pair.question.stream]
    return [check_forms(pairs), check_identity(pairs), check_streaming(streams)]


async def _routed(probe: Probe, question: Question) -> Answer:
    """Ask the router; a stream again that came in one piece, since this process may have slept meanwhile."""
    answer = await probe.ask(question)
    for _ in range(_STREAM_ATTEMPTS - 1):
        if question.stream and is_burst(answer):
            answer = await probe.ask(question)
    return answer


def _busy(seen: Observation) -> Check:
    others = seen.router.total(REQUESTS) - 1
    finding = Finding(
        "VER012",
        Severity.WARNING,
        "router",
        f"{others:.0f} other requests came meanwhile: whether a decoder computed this one too cannot be told",
        got=f"{others:.0f}",
        allowed=0,
        fix="verify again when nobody else asks",
    )
    return Check("quiet", f"{others:.0f} other requests", (finding,))
