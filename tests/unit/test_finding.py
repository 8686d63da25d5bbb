"""A finding reads as one line and as one JSON object, in the form of the contract."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

from dpd.finding import Finding, Severity, has_errors

CONTRACT_KEYS = {"id", "severity", "path", "message", "got", "allowed", "fix", "source"}
FOUND = Finding(
    id="KVC001",
    severity=Severity.ERROR,
    path="dpd.pd_buffer",
    message="one prompt needs 2 bytes, got 1",
    got=1,
    allowed=["2", "3"],
    fix="raise it to 2",
    source="LMCache/LMCache#4209",
    file="config/models/llama.yaml",
)


def test_text_is_file_path_message_fix_and_id() -> None:
    assert FOUND.text() == (
        "config/models/llama.yaml: dpd.pd_buffer: one prompt needs 2 bytes, got 1; raise it to 2 [KVC001]"
    )


def test_a_known_line_stands_behind_the_file() -> None:
    assert replace(FOUND, file="a.yaml", line=7).text().startswith("a.yaml:7: dpd.pd_buffer: ")


def test_without_file_path_or_fix_nothing_dangles() -> None:
    assert Finding("X", Severity.INFO, "", "message").text() == "message [X]"


def test_a_lowered_finding_ends_with_its_reason() -> None:
    lowered = replace(FOUND, severity=Severity.WARNING, accepted="measured on our cluster")
    assert lowered.text().endswith("[KVC001] (lowered to warning: measured on our cluster)")


def test_json_has_every_key_of_the_contract() -> None:
    data = FOUND.to_json()
    assert set(data) >= CONTRACT_KEYS
    assert set(data) - CONTRACT_KEYS == {"file", "line", "accepted"}
    assert json.loads(json.dumps(data)) == data
    assert data["severity"] == "error"


def test_json_holds_any_value() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in ({"b": 2}, ("a", 1), {"z"}, b"bytes", float("inf"), object(), {date(2026, 1, 1): 1}, circle):
        json.dumps(replace(FOUND, got=value).to_json(), allow_nan=False)
    assert replace(FOUND, got={"z": (1, None)}).to_json()["got"] == {"z": [1, None]}


def test_findings_with_lists_can_be_told_apart_in_a_set() -> None:
    assert len({FOUND, replace(FOUND), replace(FOUND, severity=Severity.WARNING)}) == 2


def test_only_errors_fail_a_command_unless_it_is_strict() -> None:
    warning = replace(FOUND, severity=Severity.WARNING)
    info = replace(FOUND, severity=Severity.INFO)
    assert has_errors([info, FOUND])
    assert not has_errors([warning, info])
    assert has_errors([warning], strict=True)
    assert not has_errors([info], strict=True)
