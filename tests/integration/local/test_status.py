"""What status shows of a running system."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpd.local import loopback, status
from dpd.local.bring_up import Deployed
from dpd.local.loopback import NoAnswer
from dpd.local.state import Desired
from dpd.local.system import LocalProcess, LocalSystem

METRICS = """
# TYPE dpd_router_requests_total counter
dpd_router_requests_total{path="bypass",reason="short_prompt",code="200"} 3.0
dpd_router_requests_total{path="disaggregated",reason="long_prompt",code="200"} 2.0
dpd_router_requests_total{path="disaggregated",reason="long_prompt",code="503"} 1.0
"""


@pytest.fixture
def system(up: Callable[[Desired], Deployed], desired: Desired) -> LocalSystem:
    return up(desired).system


def test_requests_are_counted_by_path(system: LocalSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "fetch", lambda *_, **__: METRICS)
    shown, findings = status.status(system)
    assert shown.requests_by_path == {"bypass": 3, "disaggregated": 3}
    assert findings == []
    assert status.lines(shown)[-1] == "requests: bypass 3, disaggregated 3"


def test_a_router_that_does_not_answer_has_no_counts(
    system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(url: str, **_: object) -> str:
        raise NoAnswer(url)

    monkeypatch.setattr(loopback, "fetch", fetch)
    assert status.status(system)[0].requests_by_path == {}


def test_a_process_that_is_not_ready_is_a_finding(
    system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalProcess, "ready", property(lambda process: process.name != "decode-0"))
    shown, findings = status.status(system)
    assert [(finding.id, finding.path) for finding in findings] == [("LOC108", "decode-0")]
    assert [row.ready for row in shown.processes] == [True, False, True]


def test_every_line_names_simulated_engines(system: LocalSystem) -> None:
    assert "SIMULATED" in status.lines(status.status(system)[0])[0]


def test_the_table_has_a_line_for_each_process(system: LocalSystem) -> None:
    shown = status.status(system)[0]
    table = status.lines(shown)[2:-1]
    assert [line.split()[0] for line in table] == ["prefill-0", "decode-0", "router"]
    assert all(str(row.pid) in line for row, line in zip(shown.processes, table, strict=True))
