"""Every drill on real engines: no client gets a wrong answer, and the system recovers without help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpd.cli import main
from dpd.local.system import LocalSystem
from dpd.ops.drill.drills import DRILLS

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 300

Report = dict[str, Any]


@pytest.fixture(scope="module")
def report(system: LocalSystem) -> Report:
    """Return the report of all drills, which run one after the other."""
    system.wait_ready(timeout_s=START_TIMEOUT_S)
    system.wait_routed(timeout_s=START_TIMEOUT_S)
    config = str(ROOT / "config")
    done = CliRunner().invoke(main, ["drill", "--env", "local", "--format", "json", "--config-dir", config])
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=[drill.name for drill in DRILLS])
def row(request: pytest.FixtureRequest, report: Report) -> dict[str, Any]:
    """Return the row of each drill in turn."""
    return {row["drill"]: row for row in report["drills"]}[request.param]


def test_no_client_gets_a_wrong_answer(row: dict[str, Any], report: Report) -> None:
    assert row["wrong"] == 0, report["findings"]
    assert row["identical"] > 0


def test_the_system_recovers_and_verifies(row: dict[str, Any], report: Report) -> None:
    assert row["recovered_after_s"] is not None, report["findings"]
    assert row["findings"] == [], report["findings"]


def test_the_loss_of_a_prefiller_costs_no_client_an_error(report: Report) -> None:
    rows = [row for row in report["drills"] if row["drill"].startswith("prefiller")]
    assert [row["clear_errors"] for row in rows] == [0, 0, 0]
