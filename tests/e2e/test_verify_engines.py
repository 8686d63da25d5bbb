"""`dpd verify` on real engines: it passes, and sabotage of what runs is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dpd.cli import main
from dpd.local.state import Desired, ProcessSpec, write
from dpd.local.system import LocalSystem, NotRunning

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 300

Report = dict[str, Any]


def verify() -> Report:
    """Return the report, with the exit code."""
    config = str(ROOT / "config")
    done = CliRunner().invoke(main, ["verify", "--env", "local", "--format", "json", "--config-dir", config])
    return {**json.loads(done.stdout), "exit_code": done.exit_code}


def ids(report: Report) -> set[str]:
    return {finding["id"] for finding in report["findings"]}


def outcomes(report: Report) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in report["checks"]}


@contextmanager
def sabotaged(
    system: LocalSystem, name: str, change: Callable[[ProcessSpec], dict[str, object]]
) -> Iterator[None]:
    """Run one process otherwise than it was deployed, until the block ends."""
    right = system.desired
    specs = tuple(
        spec.model_copy(update=change(spec)) if spec.name == name else spec for spec in right.processes
    )
    try:
        _apply(system, right.model_copy(update={"processes": specs}))
        yield
    finally:
        _apply(system, right)


def _apply(system: LocalSystem, desired: Desired) -> None:
    write(system.folder.desired, desired)
    system.wait_ready(timeout_s=START_TIMEOUT_S)
    system.wait_routed(timeout_s=START_TIMEOUT_S)


@pytest.fixture(scope="module")
def running(system: LocalSystem) -> LocalSystem:
    """Return a system in which everything runs and is used."""
    system.wait_ready(timeout_s=START_TIMEOUT_S)
    system.wait_routed(timeout_s=START_TIMEOUT_S)
    return system


def test_what_was_deployed_passes(running: LocalSystem) -> None:
    report = verify()
    assert (report["exit_code"], report["findings"], report["engine"]) == (0, [], "vllm")
    assert set(outcomes(report).values()) == {"passed"}


def test_a_threshold_above_the_prompt(running: LocalSystem) -> None:
    def raised(spec: ProcessSpec) -> dict[str, object]:
        [(path, text)] = spec.files.items()
        config = yaml.safe_load(text)
        config["routing"]["threshold_tokens"] = 100_000
        return {"files": {path: yaml.safe_dump(config)}}

    with sabotaged(running, "router", raised):
        report = verify()
    assert (report["exit_code"], ids(report)) == (1, {"VER001", "VER004"})


def test_a_prefiller_that_is_stopped(running: LocalSystem) -> None:
    running.pause("prefill-0")
    try:
        report = verify()
    finally:
        # On a slow machine the supervisor may have ended it meanwhile.
        with suppress(NotRunning):
            running.resume("prefill-0")
    running.wait_ready(timeout_s=START_TIMEOUT_S)
    running.wait_routed(timeout_s=START_TIMEOUT_S)
    assert report["exit_code"] == 1
    assert {"VER004", "VER011"} <= ids(report)
    assert outcomes(report)["identity"] == "passed"


@pytest.fixture(scope="module")
def of_a_deaf_decoder(running: LocalSystem) -> Report:
    """Return the report on a decoder without a KV connector and with a hash seed of its own."""

    def deaf(spec: ProcessSpec) -> dict[str, object]:
        at = spec.command.index("--kv-transfer-config")
        command = (*spec.command[:at], *spec.command[at + 2 :])
        return {"command": command, "environment": {**spec.environment, "PYTHONHASHSEED": "1"}}

    with sabotaged(running, "decode-0", deaf):
        return verify()


def test_a_decoder_that_recomputes_answers_as_if_nothing_was_wrong(of_a_deaf_decoder: Report) -> None:
    passed = {name for name, outcome in outcomes(of_a_deaf_decoder).items() if outcome == "passed"}
    assert passed == {"ready", "long_prompt", "short_prompt", "forms", "identity", "streaming"}


def test_a_decoder_that_recomputes_is_found(of_a_deaf_decoder: Report) -> None:
    assert of_a_deaf_decoder["exit_code"] == 1
    assert {"VER002", "VER006", "VER007"} <= ids(of_a_deaf_decoder)


def test_a_hash_seed_of_one_process_is_found(of_a_deaf_decoder: Report) -> None:
    [found] = [finding for finding in of_a_deaf_decoder["findings"] if finding["id"] == "VER003"]
    assert found["got"] == {"prefill-0": "0", "decode-0": "1"}
