"""Releases that go together: what the facts know to fail is an error, what they do not know a warning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.rules import rules

Check = Callable[..., list[Any]]
With = Callable[..., None]
B200 = {"region": "us-west-2"} | {
    f"hyperpod.groups.{name}.instance_type": "ml.p6-b200.48xlarge" for name in ("prefill", "decode")
}


@pytest.fixture
def with_row(monkeypatch: pytest.MonkeyPatch, workspace: object, facts: Facts) -> With:
    """Return ``with_row(table, key, field=value)``: loading sees that row with other values."""

    def run(table: str, key: str, **changes: object) -> None:
        rows = dict(getattr(facts, table))
        rows[key] = rows[key].model_copy(update=changes)
        changed = replace(facts, **{table: rows})
        monkeypatch.setattr("dpd.spec.catalog.load_facts", lambda _: (changed, []))

    return run


def only(found: list[Any]) -> Any:
    assert len(found) == 1, [item.text() for item in found]
    return found[0]


def test_p39_a_nixl_that_hangs_on_efa_is_refused(check: Check, with_row: With) -> None:
    with_row("images", "hyperpod-dlc", nixl_version="1.3.0")
    finding = only(check())
    assert (finding.id, finding.severity, finding.path) == ("IMG006", "error", "serving.image")
    assert "FI_MORE" in finding.message
    assert "1.3.0" not in finding.allowed
    assert check(llama={"serving.mode": "colocated"}) == []


def test_p63_a_nixl_that_nobody_knows_is_a_warning(check: Check, with_row: With) -> None:
    with_row("images", "hyperpod-dlc", nixl_version="1.9.9")
    finding = only(check())
    assert (finding.id, finding.severity, finding.got) == ("IMG007", "warning", "1.9.9")
    accepted = {"severity": "info", "reason": "moved 32k prompts between two nodes in our own test"}
    finding = only(check(dev={"accept": {"IMG007": accepted}}))
    assert finding.severity == "info"


def test_p62_an_image_of_unknown_contents_says_so_once_for_each_transport(check: Check) -> None:
    assert only(check(llama={"serving.image": "dlc-vllm-v2.3"})).id == "IMG005"
    assert only(check(gpt={"serving.image": "dlc-vllm-v2.3"})).id == "IMG007"


def test_p60_an_lmcache_that_nobody_knows_is_a_warning(check: Check, with_row: With) -> None:
    with_row("images", "hyperpod-dlc", lmcache_version="0.9.0")
    found = check()
    assert [item.id for item in found] == ["LMC004"]
    assert "LMCache 0.9.0" in found[0].message
    assert check(llama={"serving.mode": "colocated"}) == []


def test_unknown_combinations_say_how_to_accept_them(check: Check, with_row: With) -> None:
    with_row("images", "hyperpod-dlc", lmcache_version="0.9.0", nixl_version="9.0")
    found = check(dev={"hyperpod.chart_commit": "1" * 40, "operator.addon_version": "v9.0.0-eksbuild.1"})
    found += check(llama={"serving.image": "registry.example.com/vllm:1.0"})
    assert {item.id for item in found} == {"LMC004", "IMG002", "IMG007", "CLU008", "OPR009"}
    for item in found:
        assert f"accept: {{{item.id}: {{severity: info, reason: ...}}}}" in item.fix
        assert item.severity == "warning"


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({"serving.image": "lmcache-v0.4.3"}, ["vLLM 0.19.1 or later, got 0.19.0"]),
    ],
)
def test_kvaware_needs_newer_parts(check: Check, edits: dict[str, Any], says: list[str]) -> None:
    kvaware = {"serving.mode": "colocated", "dpd.routing.strategy": "kvaware", **edits}
    finding = only(check(llama=kvaware))
    assert (finding.id, finding.severity, finding.path) == ("RTG004", "error", "dpd.routing.strategy")
    for text in says:
        assert text in finding.message
    assert check(llama={**kvaware, "serving.image": "hyperpod-dlc"}) == []
    assert check(llama={**kvaware, "dpd.routing.strategy": "session"}) == []


def test_kvaware_needs_a_newer_operator_and_lmcache(check: Check, with_row: With) -> None:
    with_row("operator", "v1.4.0-eksbuild.1", operator_version="3.1.2")
    finding = only(check(llama={"dpd.routing.strategy": "kvaware"}))
    assert finding.message == "kvaware needs operator 3.1.3 or later, got 3.1.2"
    with_row("images", "hyperpod-dlc", lmcache_version="0.4.2")
    found = check(llama={"dpd.routing.strategy": "kvaware"})
    assert [item.id for item in found] == ["LMC004", "RTG004"]


def test_p23_an_efa_plugin_that_miscounts_the_devices_is_refused(check: Check, with_row: With) -> None:
    assert "CLU007" not in {item.id for item in check(dev=B200)}
    with_row("charts", "hyperpod-base", efa_plugin_version="0.5.9")
    (finding,) = [item for item in check(dev=B200) if item.id == "CLU007"]
    assert "ml.p6-b200.48xlarge needs EFA device plugin 0.5.10, the chart has 0.5.9" in finding.message
    assert check() == []


def test_a_chart_that_nobody_knows_is_a_warning(check: Check, facts: Facts) -> None:
    known = facts.charts["hyperpod-base"].commit
    assert check(dev={"hyperpod.chart_commit": known}) == []
    finding = only(check(dev={"hyperpod.chart_commit": "a" * 40}))
    assert (finding.id, finding.severity, finding.path) == ("CLU008", "warning", "hyperpod.chart_commit")


def test_an_addon_outside_the_versions_it_was_seen_for_is_a_warning(check: Check, with_row: With) -> None:
    with_row("operator", "v1.4.0-eksbuild.1", kubernetes_versions=("1.32", "1.33"))
    finding = only(check())
    assert (finding.id, finding.severity, finding.path) == ("CLU009", "warning", "kubernetes.version")
    assert "1.32, 1.33" in finding.message
    assert [item.id for item in check(dev={"kubernetes.version": "1.31"})] == ["CLU001"]


def test_every_rule_about_unknown_releases_is_a_warning() -> None:
    for id in ("LMC004", "IMG002", "IMG007", "CLU008", "CLU009", "OPR009"):
        assert rules()[id].severity == "warning", id
