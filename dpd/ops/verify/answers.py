"""Whether clients get what they should: whole answers, the decoder's own words, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dpd.finding import Finding
from dpd.ops.openai_client import Answer, Question
from dpd.ops.verify.check import Check, error

_LEAST_STEP_S: Final = 0.0005
"""Less time for a token than any engine needs: what comes faster was held back somewhere."""
_SHOWN_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold the router's answer and that of a decoder which computed the same prompt itself."""

    question: Question
    routed: Answer
    alone: Answer


def check_forms(pairs: Sequence[Pair]) -> Check:
    """Demand whole answers of every form of the API."""
    findings = [
        error(
            "VER010",
            "router",
            f"a {pair.question.form} was not answered: {pair.routed.problem}",
            got=pair.routed.problem,
            allowed="a whole answer",
            fix="see the router's log for this path; x-request-id names the request",
        )
        for pair in pairs
        if not pair.routed.complete
    ]
    forms = "; ".join(pair.question.form for pair in pairs if pair.routed.complete)
    return Check("forms", f"answered: {forms or 'none'}", tuple(findings))


def check_identity(pairs: Sequence[Pair]) -> Check:
    """Demand the text that a decoder alone gives, character by character."""
    judged = [pair for pair in pairs if pair.routed.complete and pair.alone.complete]
    findings = [*_alone_findings(pairs), *(found for pair in judged for found in _text_findings(pair))]
    equal = sum(pair.routed.text == pair.alone.text for pair in judged)
    saw = f"{equal} of {len(pairs)} answers are those of the decoder alone"
    return Check("identity", saw, tuple(findings), judged=bool(judged or findings))


def check_streaming(answers: Sequence[Answer]) -> Check:
    """Demand that the text of each stream came bit by bit, and not in one burst at its end."""
    judged = [answer for answer in answers if answer.complete]
    findings = [_burst_finding(answer) for answer in judged if is_burst(answer)]
    saw = "; ".join(_rhythm(answer) for answer in judged)
    return Check("streaming", saw or "no stream was whole", tuple(findings), judged=bool(judged))


def _alone_findings(pairs: Sequence[Pair]) -> Iterator[Finding]:
    problems = {pair.alone.problem for pair in pairs if not pair.alone.complete}
    for problem in sorted(problems):
        yield error(
            "VER002",
            "decode",
            f"does not answer a prompt of its own: {problem}",
            got=problem,
            allowed="a whole answer",
            fix="see the decoder's log",
        )


def _text_findings(pair: Pair) -> Iterator[Finding]:
    routed, alone = pair.routed.text, pair.alone.text
    if routed != alone:
        at = next((i for i, (a, b) in enumerate(zip(routed, alone, strict=False)) if a != b), 0)
        got, allowed = (repr(text[at : at + _SHOWN_CHARACTERS]) for text in (routed, alone))
        yield error(
            "VER008",
            "router",
            f"a {pair.question.form} differs from the decoder's own at character {at}: {got}, not {allowed}",
            got=got,
            allowed=allowed,
            fix="the KV cache is that of another prompt, or of other weights or settings: compare arguments "
            "and folders of the workers",
        )


def is_burst(answer: Answer) -> bool:
    """Tell whether a whole stream came faster than any engine makes tokens."""
    return answer.complete and _spread_s(answer) < _least_s(answer)


def _burst_finding(answer: Answer) -> Finding:
    return error(
        "VER009",
        "router",
        f"a stream of {answer.completion_tokens} tokens came as a burst: {_rhythm(answer)}",
        got=f"{1000 * _spread_s(answer):.1f} ms from the first text to the last",
        allowed=f"{1000 * _least_s(answer):.1f} ms or more",
        fix="turn off buffering in what stands between client and workers",
    )


def _least_s(answer: Answer) -> float:
    return answer.completion_tokens * _LEAST_STEP_S


def _spread_s(answer: Answer) -> float:
    return answer.arrivals_s[-1] - answer.arrivals_s[0] if answer.arrivals_s else 0.0


def _rhythm(answer: Answer) -> str:
    if not answer.arrivals_s:
        return "no text"
    first_s, last_s = answer.arrivals_s[0], answer.arrivals_s[-1]
    return f"{len(answer.arrivals_s)} reads from {first_s:.2f} s to {last_s:.2f} s"
