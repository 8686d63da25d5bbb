"""A drill passes where clients get what they should, and fails where they do not, or nothing was hit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpd.cli import main
from dpd.local.system import LocalSystem
from dpd.ops.drill.drills import DRILLS, Drill
from dpd.ops.drill.load import Known, Load, judge, known_answers
from dpd.ops.drill.run import Drilled, run_drill
from dpd.ops.drill.table import table_lines
from dpd.ops.local_target import local_target
from dpd.ops.openai_client import Answer, Question
from dpd.ops.verify.probe import Probe
from dpd.spec.catalog import load_catalog
from dpd.spec.local_deployment import build_local_deployment

ROOT = Path(__file__).resolve().parents[3]
KNOWN = Known(Question("?", 8), "one two three")
ERROR = "decode failed"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"text": "one two three", "finish_reason": "length"}, "identical"),
        ({"text": "one two four", "finish_reason": "length"}, "wrong"),
        ({"text": "one two", "finish_reason": "stop"}, "wrong"),
        ({"text": "", "finish_reason": "stop"}, "wrong"),
        ({"text": "one two", "error": ERROR}, "clear error"),
        ({"error": ERROR}, "clear error"),
        ({"text": "one", "error": ERROR, "broken": "the connection broke"}, "clear error"),
        ({"text": "two", "error": ERROR}, "wrong"),
        ({"text": "one", "broken": "the stream ended without [DONE]"}, "wrong"),
        ({"broken": "no end within 120 s"}, "wrong"),
        ({"text": "one"}, "wrong"),
    ],
)
def test_an_answer_is_judged(answer, verdict):
    assert judge(KNOWN, Answer(status=200, **answer)).verdict == verdict


def verdicts(system, *faults):
    """Return what clients got while these faults were set at the decoder."""

    async def loaded():
        async with Probe(system.target) as probe:
            known = await known_answers(probe)
        for kind, more in faults:
            system.fault(system.decoder, kind, **more)
        async with Load(system.target.router_url, "tiny", known) as load:
            await system.until(lambda: len(load.outcomes) >= 8)
        return {outcome.verdict for outcome in load.outcomes}

    return loaded()


def test_clients_know_the_answers(simulate):
    assert simulate(verdicts) == {"identical"}


def test_clients_notice_wrong_text(simulate):
    assert simulate(lambda system: verdicts(system, ("wrong_text", {}))) == {"wrong"}


def test_a_stream_that_breaks_is_a_clear_error(simulate):
    assert simulate(lambda system: verdicts(system, ("die_mid_stream", {}))) == {"clear error"}


def test_the_table_has_a_line_for_each_drill():
    outcomes = [judge(KNOWN, Answer(text=KNOWN.text, finish_reason="length")), judge(KNOWN, Answer())]
    results = [Drilled(DRILLS[0], outcomes, 3.25, ()), Drilled(DRILLS[3], [], None, ())]
    assert table_lines(results) == [
        "drill             requests  identical  clear errors  wrong  recovered after",
        "prefiller-killed         2          1             0      1            3.2 s",
        "decoder-killed           0          0             0      0            never",
    ]


def dpd(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*arguments, "--config-dir", str(ROOT / "config")])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """Return a system of simulated processes, under a supervisor of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPD_HOME", str(tmp_path_factory.mktemp("home")))
        code, output = dpd("deploy", "--engine", "simulated")
        assert code == 0, output
        yield LocalSystem.load("local")
        dpd("destroy")


@pytest.fixture
def target(local):
    """Return a function that reads the system anew."""
    catalog = load_catalog(ROOT / "config")
    environment, model = catalog.environments["local"].value, catalog.models["tiny-llama"].value
    deployment = build_local_deployment(environment, model, catalog.facts)
    return lambda: local_target(deployment, local)


def run(drill, local, target):
    async def drilled():
        async with Probe(target()) as probe:
            known = await known_answers(probe)
        return await run_drill(drill, local, target, known)

    return asyncio.run(drilled())


def test_verify_reports_simulated_engines(local):
    code, output = dpd("verify", "--format", "json")
    report = json.loads(output)
    assert (code, report["engine"], report["findings"]) == (0, "simulated", [])
    code, output = dpd("verify")
    assert code == 0
    assert "SIMULATED" in output
    assert "9 of 9 checks passed" in output


def test_verify_finds_a_deploy_with_other_values(local):
    code, output = dpd("verify", "--set", "dpd.routing.threshold_tokens=512", "--format", "json")
    assert code == 1
    assert [finding["id"] for finding in json.loads(output)["findings"]] == ["VER001"]


def test_what_does_not_verify_is_not_drilled(local):
    code, output = dpd("drill", "--set", "dpd.routing.threshold_tokens=512", "--format", "json")
    report = json.loads(output)
    assert (code, report["drills"]) == (1, [])
    assert [finding["id"] for finding in report["findings"]] == ["VER001"]


def test_a_killed_prefiller_costs_no_client_anything(local):
    code, output = dpd("drill", "--only", "prefiller-killed", "--format", "json")
    report = json.loads(output)
    assert (code, report["findings"]) == (0, [])
    [row] = report["drills"]
    assert row["requests"] == row["identical"] > 0
    assert row["recovered_after_s"] > 0


def test_a_drill_that_hits_nothing_is_found(local, target):
    async def strike(scene, _):
        scene.strike(lambda _: None, "prefill-0")

    drilled = run(Drill("idle", "nothing", "prefill", strike), local, target)
    assert [finding.id for finding in drilled.findings] == ["DRL003"]


def test_a_router_that_stays_away_is_found(local, target, monkeypatch):
    monkeypatch.setattr("dpd.ops.drill.scene._RECOVERY_S", 1)
    monkeypatch.setattr("dpd.ops.drill.load._BOUND_S", 2)

    async def strike(scene, name):
        scene.strike(scene.system.pause, name)

    try:
        drilled = run(Drill("stopped", "for ever", "router", strike, breaks=False), local, target)
    finally:
        local.resume("router")
    assert {finding.id for finding in drilled.findings} == {"DRL002", "DRL001", "VER011"}
    assert "no end within 2 s" in drilled.findings[1].message
    assert drilled.recovered_after_s is None


@pytest.mark.parametrize("command", ["verify", "drill"])
def test_what_does_not_run_cannot_be_verified(command, tmp_path, monkeypatch):
    monkeypatch.setenv("DPD_HOME", str(tmp_path))
    code, output = dpd(command)
    assert code == 1
    assert "[LOC107]" in output


@pytest.mark.parametrize("command", ["verify", "drill"])
def test_hyperpod_is_not_verified_yet(command):
    code, output = dpd(command, "--env", "dev")
    assert code == 2
    assert f"`dpd {command}` of this version works on `backend: local` alone" in output


def test_an_unknown_drill_names_the_known_ones():
    code, output = dpd("drill", "--only", "earthquake")
    assert code == 2
    assert "prefiller-killed, prefiller-restarted" in output
