"""The commands that need neither AWS nor Node.js: what they print, and how they end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpd import __version__
from dpd.cli import main
from dpd.rules import rules

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run(workspace: Any) -> Run:
    """Return ``run("check", ...)`` on the workspace."""

    def invoke(command: str, *args: str) -> Result:
        where = ["--config-dir", str(workspace.folder)] if command in {"check", "plan"} else []
        result = CliRunner().invoke(main, [command, *where, *args], catch_exceptions=False)
        assert "Traceback" not in result.output
        return result

    return invoke


def entry(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpd", *args], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_a_clean_environment_ends_with_0(run: Run) -> None:
    result = run("check", "--env", "dev")
    assert result.exit_code == 0
    assert "0 errors, 0 warnings" in result.stdout
    assert result.stderr == ""


def test_an_error_ends_with_1_and_goes_to_standard_error(run: Run, workspace: Any) -> None:
    workspace.edit("dev", {"operator.addon_version": "v1.2.0-eksbuild.1"})
    result = run("check", "--env", "dev")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "[OPR001]" in result.stderr
    assert "1 error, 0 warnings" in result.stdout


def test_a_warning_ends_with_1_only_where_strict(run: Run, workspace: Any) -> None:
    workspace.edit("llama", {"workload.concurrency": 100})
    assert run("check", "--env", "dev").exit_code == 0
    result = run("check", "--env", "dev", "--strict")
    assert result.exit_code == 1
    assert result.stderr.startswith("warning: ")


def test_errors_come_before_warnings(run: Run, workspace: Any) -> None:
    workspace.edit("llama", {"workload.concurrency": 100, "autoscaling.decode.min": 0})
    lines = run("check", "--env", "dev").stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "warning"]


def test_json_is_one_object_with_findings(run: Run, workspace: Any) -> None:
    workspace.edit("llama", {"dpd.routing": {"treshold": 1}})
    result = run("check", "--env", "dev", "--format", "json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["findings"]
    assert (found["id"], found["path"]) == ("CFG001", "dpd.routing.treshold")
    assert "threshold_tokens" in found["allowed"]
    assert found["line"] > 0


@pytest.mark.parametrize("command", ["check", "plan"])
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--env", "devv"], ["unknown environment `devv`", "did you mean `dev`?", "prod", "staging"]),
        (["--model", "llama"], ["unknown model `llama`", "llama-3.3-70b", "qwen3-32b"]),
        (["--format", "xml"], ["'xml'", "text", "json"]),
        (["--nope"], ["--nope"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_wrong_usage_ends_with_2_and_names_what_is_known(
    run: Run, command: str, args: list[str], says: list[str]
) -> None:
    result = run(command, *args)
    assert result.exit_code == 2
    for text in says:
        assert text in result.stderr


def test_an_unknown_name_still_shows_what_is_wrong_in_the_files(run: Run, workspace: Any) -> None:
    workspace.path("staging").write_text("")
    result = run("check", "--env", "nope")
    assert result.exit_code == 2
    assert "[CFG005]" in result.stderr


def test_a_model_can_be_tried_where_it_is_not_listed(run: Run) -> None:
    result = run("check", "--env", "dev", "--model", "qwen2.5-72b", "--set", "workload.concurrency=100")
    assert result.exit_code == 0
    assert "command line: workload.concurrency" in result.stderr


def test_an_accepted_finding_prints_its_reason(run: Run) -> None:
    result = run("check", "--env", "prod")
    assert result.exit_code == 0
    assert "(lowered to warning: the registry's digest is not known" in result.stderr


def test_plan_in_text_and_json(run: Run) -> None:
    text = run("plan", "--env", "dev", "--explain")
    assert text.exit_code == 0
    assert "ml.p5.48xlarge" in text.stdout
    result = run("plan", "--env", "dev", "--env", "staging", "--format", "json", "--explain")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert [item["environment"] for item in data["plans"]] == ["dev", "staging"]
    assert data["findings"] == []
    assert data["plans"][0]["models"][0]["origins"]


def test_plan_of_a_configuration_with_errors_is_shown_and_ends_with_1(run: Run, workspace: Any) -> None:
    workspace.edit("dev", {"models": ["llama-3.3-70b", "nowhere"]})
    result = run("plan", "--env", "dev")
    assert result.exit_code == 1
    assert "llama-3.3-70b" in result.stdout
    assert "[CFG004]" in result.stderr


def test_rules_lists_every_rule_once(run: Run) -> None:
    lines = run("rules").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(rules())


def test_one_rule_in_full_whatever_its_case(run: Run) -> None:
    text = run("rules", "kvc001").stdout
    for part in ("KVC001", "Symptom", "Cause", "Fix", "Source: LMCache/LMCache#4209", "Bad", "Good"):
        assert part in text
    (row,) = json.loads(run("rules", "KVC001", "--format", "json").stdout)["rules"]
    assert row["severity"] == "error"
    assert set(row) >= {"id", "title", "symptom", "cause", "fix", "source", "bad", "good"}
    assert len(json.loads(run("rules", "--format", "json").stdout)["rules"]) == len(rules())


def test_an_unknown_rule_ends_with_2_and_names_those_known(run: Run) -> None:
    result = run("rules", "KVC999")
    assert result.exit_code == 2
    assert "KVC001" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_DPD_COMPLETE" in result.stdout


def test_help_and_version(run: Run) -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).stdout
    text = CliRunner().invoke(main, ["-h"]).stdout
    for command in ("check", "plan", "rules", "completion", "manifests", "synth"):
        assert f"  {command} " in text
    assert "Exit codes" in text


def test_the_real_entry_keeps_the_exit_codes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    assert entry("check", "--env", "dev", cwd=tmp_path).returncode == 0
    (tmp_path / "config" / "models" / "llama-3.3-70b.yaml").write_bytes(b"\xff\xfe\x00")
    broken = entry("check", cwd=tmp_path)
    assert broken.returncode == 1
    assert "[CFG005]" in broken.stderr
    assert "Traceback" not in broken.stderr
    absent = entry("check", "--config-dir", "nowhere", cwd=tmp_path)
    assert absent.returncode == 1
    assert absent.stderr.count("[CFG005]") == 3
    usage = entry("check", "--env", "nope", cwd=tmp_path)
    assert usage.returncode == 2
    assert "Traceback" not in usage.stderr


VALID = (ROOT / "config" / "environments" / "dev.yaml").read_bytes()
mangled = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.tuples(st.integers(0, len(VALID)), st.binary(max_size=4)).map(
        lambda at: VALID[: at[0]] + at[1] + VALID[at[0] :]
    ),
    st.integers(0, len(VALID)).map(lambda end: VALID[:end]),
)


@settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(content=mangled)
@example(content=b"? {a: b}\n: c\n")
@example(content=b"1: a\n2: b\n")
@example(content=b"~: a\n")
@example(content=VALID + b"tags: {2026-01-01: {x: y}}\n")
@example(content=VALID.replace(b"count: 2", b"count: .inf"))
@example(content=VALID + b"overrides: {llama-3.3-70b: {1: 2}}\n")
@example(content=VALID + b"overrides: {llama-3.3-70b: {dpd: {environment: {a: !!binary aGk=}}}}\n")
def test_no_content_of_a_file_gives_a_traceback(run: Run, workspace: Any, content: bytes) -> None:
    workspace.path("dev").write_bytes(content)
    for command in ("check", "plan"):
        result = run(command, "--format", "json")
        assert result.exit_code in {0, 1}
        json.loads(result.stdout) if result.stdout else None
