"""CFG007, and what accepting a finding does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpd.finding import Finding, Severity, has_errors

Check = Callable[..., list[Finding]]
REASON = "measured on our own cluster"


def accept(id: str, severity: str = "warning") -> dict[str, Any]:
    return {"accept": {id: {"severity": severity, "reason": REASON}}}


def test_accepting_lowers_the_finding_and_prints_the_reason(check: Check) -> None:
    wrong = {"autoscaling.decode.min": 0}
    assert has_errors(check(llama=wrong))
    (found,) = check(llama=wrong, dev=accept("SCL001"))
    assert (found.id, found.severity, found.accepted) == ("SCL001", Severity.WARNING, REASON)
    assert found.text().endswith(f"[SCL001] (lowered to warning: {REASON})")
    assert not has_errors([found])


def test_accepting_lowers_a_warning_to_information(check: Check) -> None:
    (found,) = check(llama={"workload.concurrency": 100}, dev=accept("WRK003", "info"))
    assert found.severity == Severity.INFO
    assert not has_errors([found], strict=True)


def test_accepting_what_does_not_occur_says_nothing(check: Check) -> None:
    assert check(dev=accept("WRK003")) == []


@pytest.mark.parametrize("id", ["IMG030", "nonsense", "CFG001", "CFG007", "img003"])
def test_cfg007_unknown_and_cfg_ids_cannot_be_accepted(check: Check, id: str) -> None:
    (found,) = check(dev=accept(id))
    assert (found.id, found.severity, found.path) == ("CFG007", Severity.ERROR, f"accept.{id}")
    assert id in found.message


def test_cfg007_names_the_nearest_id(check: Check) -> None:
    (found,) = check(dev=accept("IMG0030"))
    assert "did you mean IMG003?" in found.fix


def test_what_is_wrong_in_an_override_cannot_be_accepted(check: Check) -> None:
    dev = accept("CFG003") | {("overrides", "llama-3.3-70b", "dpd"): {"pd_buffer": 8}}
    assert {(found.id, found.severity) for found in check(dev=dev)} == {
        ("CFG003", Severity.ERROR),
        ("CFG007", Severity.ERROR),
    }


def test_one_environment_s_acceptance_does_not_hide_the_error_of_another(check: Check) -> None:
    accepted = accept("SCL001")
    found = check(staging={}, dev=accepted, llama={"autoscaling.decode.min": 0})
    assert sorted(item.severity for item in found) == ["error", "warning"]
    found = check(dev=accepted, staging={}, llama={"autoscaling.decode.min": 0})
    assert sorted(item.severity for item in found) == ["error", "warning"]
