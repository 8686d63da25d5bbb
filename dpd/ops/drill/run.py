"""Run drills one after the other, each under load, and judge clients and system afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dpd.finding import Finding
from dpd.local.system import LocalSystem, NotRunning
from dpd.ops.drill.drills import Drill
from dpd.ops.drill.load import Known, Load, Outcome, Verdict
from dpd.ops.drill.scene import Missed, NotRecovered, Scene
from dpd.ops.verify.check import error
from dpd.ops.verify.probe import NoAnswer, Probe
from dpd.ops.verify.target import Target
from dpd.ops.verify.verify import verify

_ATTEMPTS: Final = 3
_LOGS: Final = "see the logs of router and workers, whose folder `dpd status` shows"


@dataclass(frozen=True, slots=True)
class Drilled:
    """Say how one drill went. ``recovered_after_s`` is None where the system did not, or nothing was hit."""

    drill: Drill
    outcomes: Sequence[Outcome]
    recovered_after_s: float | None
    findings: tuple[Finding, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many requests ended so."""
        return sum(outcome.verdict == verdict for outcome in self.outcomes)

    def to_json(self) -> dict[str, object]:
        """Return plain data; findings stand elsewhere, and only their ids here."""
        return {
            "drill": self.drill.name,
            "requests": len(self.outcomes),
            "identical": self.count("identical"),
            "clear_errors": self.count("clear error"),
            "wrong": self.count("wrong"),
            "recovered_after_s": self.recovered_after_s,
            "findings": [finding.id for finding in self.findings],
        }


async def run_drill(
    drill: Drill, system: LocalSystem, target: Callable[[], Target], known: Sequence[Known]
) -> Drilled:
    """Bring a fault about under load, wait for the recovery, and verify what is there then."""
    before, findings, recovered_after_s = target(), list[Finding](), None
    async with Probe(before) as probe, Load(before.router_url, before.model, known) as load:
        try:
            recovered_after_s = round(await _hit(drill, Scene(system, probe, load)), 1)
            await load.go_on()
        except NotRecovered as reason:
            findings.append(_error("DRL002", drill, str(reason), "recovered without help"))
        except (Missed, NoAnswer, NotRunning) as reason:
            findings.append(_error("DRL003", drill, f"nothing was hit: {reason}", "a request was hit"))
    findings += _wrong_answers(drill, load.outcomes)
    findings += (await verify(target())).findings
    return Drilled(drill, load.outcomes, recovered_after_s, tuple(findings))


async def _hit(drill: Drill, scene: Scene) -> float:
    """Strike until a request was hit; return the seconds of the last recovery."""
    for _ in range(_ATTEMPTS):
        before = await scene.failures(drill.role)
        await drill.strike(scene, scene.name(drill.role))
        recovered_after_s = await scene.recovered()
        if not drill.breaks or await scene.failures(drill.role) > before:
            return recovered_after_s
    raise Missed(f"the router saw no request fail, {_ATTEMPTS} times")


def _wrong_answers(drill: Drill, outcomes: Sequence[Outcome]) -> list[Finding]:
    wrong = [outcome for outcome in outcomes if outcome.verdict == "wrong"]
    if not wrong:
        return []
    message = (
        f"{len(wrong)} of {len(outcomes)} clients got neither their answer nor a clear error; "
        f"the first, a {wrong[0].question.form}: {wrong[0].why}"
    )
    return [_error("DRL001", drill, message, "the whole answer, or an error that says so")]


def _error(id: str, drill: Drill, message: str, allowed: str) -> Finding:
    return error(id, drill.name, message, got=message, allowed=allowed, fix=_LOGS)
