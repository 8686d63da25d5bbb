"""The embedded system with real engines, deployed once for all e2e tests, as a person does it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpd.local.home import HOME_VARIABLE, find_home
from dpd.local.host import platform_findings
from dpd.local.system import LocalSystem

ROOT = Path(__file__).resolve().parents[2]
_DEPLOY_TIMEOUT_S = 900


def dpd(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own and return what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "dpd", *arguments],
        cwd=ROOT,
        env={**os.environ, HOME_VARIABLE: str(find_home().root)},
        capture_output=True,
        text=True,
        timeout=_DEPLOY_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="session")
def system() -> Iterator[LocalSystem]:
    """Return the running system. One that ran before stays, one that did not is ended."""
    lacking = platform_findings()
    if lacking:
        pytest.skip(lacking[0].text())
    folder = find_home().environment("local")
    ran = LocalSystem(folder).runs
    done = dpd("deploy", "--env", "local")
    assert done.returncode == 0, done.stdout + done.stderr
    yield LocalSystem(folder)
    if not ran:
        dpd("destroy", "--env", "local")
