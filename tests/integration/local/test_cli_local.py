"""`dpd deploy`, `dpd status` and `dpd destroy` as a person types them."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpd.cli import main
from dpd.local.home import find_home
from dpd.local.state import Desired, read

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty home, so that nothing of the checkout is touched."""
    monkeypatch.setenv("DPD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)
    return tmp_path / "home"


def dpd(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("command", ["deploy", "status", "destroy"])
def test_an_environment_on_hyperpod_is_left_to_cdk(command: str) -> None:
    done = dpd(command, "--env", "dev")
    verb = "cdk destroy" if command == "destroy" else "cdk deploy"
    assert done.exit_code == 2
    assert f"use `{verb} -c env=dev --all`" in done.output


def test_simulated_engines_are_deployed_changed_and_destroyed() -> None:
    try:
        done = dpd("deploy", "--engine", "simulated")
        assert done.exit_code == 0, done.output
        assert "local is up: tiny-llama (1 prefill, 1 decode, 1 router)" in done.output
        assert "SIMULATED" in done.output
        assert "nothing to change" in dpd("deploy", "--engine", "simulated").output
        done = dpd("deploy", "--engine", "simulated", "--set", "dpd.decode.max_num_seqs=4")
        assert "decode-0: ready" in done.output
        assert "prefill-0: ready" not in done.output
        shown = json.loads(dpd("status", "--format", "json").stdout)["status"]
        assert shown["requests_by_path"].keys() == {"bypass", "disaggregated"}
    finally:
        ended = dpd("destroy")
    assert ended.output == "local: ended prefill-0, decode-0, router\n"


def test_status_of_what_does_not_run_is_an_error() -> None:
    done = dpd("status", "--format", "json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["status"] is None
    assert [finding["id"] for finding in report["findings"]] == ["LOC107"]


def test_destroy_of_what_does_not_run_is_none() -> None:
    done = dpd("destroy")
    assert (done.exit_code, done.output) == (0, "local: nothing was running\n")


def test_an_unknown_environment_names_the_known_ones() -> None:
    done = dpd("status", "--env", "lokal")
    assert done.exit_code == 2
    assert "did you mean `local`?" in done.output


def test_of_several_models_one_is_to_be_chosen(tmp_path: Path) -> None:
    config = tmp_path / "config"
    shutil.copytree(ROOT / "config", config)
    model = (config / "models" / "tiny-llama.yaml").read_text(encoding="utf-8")
    (config / "models" / "other.yaml").write_text(model.replace("tiny-llama", "other"), encoding="utf-8")
    environment = config / "environments" / "local.yaml"
    text = environment.read_text(encoding="utf-8").replace("[tiny-llama]", "[tiny-llama, other]")
    environment.write_text(text, encoding="utf-8")
    done = dpd("deploy", "--config-dir", str(config))
    assert done.exit_code == 2
    assert "choose with --model: tiny-llama, other" in done.output


def test_a_machine_that_cannot_run_engines_is_told_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    done = dpd("deploy")
    assert done.exit_code == 1
    assert "[LOC101]" in done.output
    assert not (home / "engines").exists()


def test_a_port_that_another_program_took_meanwhile_is_not_kept() -> None:
    try:
        assert dpd("deploy", "--engine", "simulated").exit_code == 0
        folder = find_home().environment("local")
        before = read(folder.desired, Desired)
        assert dpd("destroy").exit_code == 0
        with socket.create_server(("127.0.0.1", before.ports["decode-0"])):
            assert dpd("deploy", "--engine", "simulated").exit_code == 0
            after = read(folder.desired, Desired)
        assert after.ports["decode-0"] != before.ports["decode-0"]
        assert after.ports["router"] == before.ports["router"]
    finally:
        dpd("destroy")
