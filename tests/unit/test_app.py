"""The CDK entry point answers a user's mistake with a sentence and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def app(cwd: Path, **context: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "CDK_CONTEXT_JSON": json.dumps(context)}
    return subprocess.run(
        [sys.executable, str(ROOT / "app.py")], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def test_unknown_environment_lists_the_known_ones(tmp_path: Path) -> None:
    run = app(tmp_path, env="devv")
    assert run.returncode == 2
    assert run.stderr.startswith("app.py: unknown environment 'devv'; known: dev, ")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "content", ["name: dev\n", "name: [\n", None], ids=["incomplete", "broken", "absent"]
)
def test_wrong_configuration_is_reported_without_traceback(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "config" / "environments").mkdir(parents=True)
    if content is not None:
        (tmp_path / "config" / "environments" / "dev.yaml").write_text(content)
    run = app(tmp_path, config="config")
    assert run.returncode == 1
    assert "[CFG00" in run.stderr
    assert "Traceback" not in run.stderr
