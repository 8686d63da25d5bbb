"""The base chart's release: what its removal does without a cluster, and what its upgrade does to fields."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SCRIPTS = Path(__file__).parents[2] / "constructs/dpd_constructs/base_chart_scripts"
VARIABLES = {
    "KUBECTL_LAYER_ARN": "arn:aws:lambda:us-west-2:111122223333:layer:tools:1",
    "CLUSTER_NAME": "dpd-dev",
    "ACCESS_WAIT_S": "0",
    "RELEASE": "hyperpod-dependencies",
    "NAMESPACE": "kube-system",
    "FOLDER": "chart",
    "VALUES": "{}",
    "HELM_TIMEOUT": "10m",
}


def stand_in(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def build(tmp_path: Path) -> Run:
    """Return a function that runs a script; ``aws`` and ``kubectl`` are the bodies of the stand-ins."""

    def run(
        script: str, *, aws: str = "true", kubectl: str = "true", **env: str
    ) -> subprocess.CompletedProcess[str]:
        layer = tmp_path / "layer.zip"
        with zipfile.ZipFile(layer, "w") as archive:
            for name, body in {"kubectl": kubectl, "helm": 'echo "$*" >>helm.log'}.items():
                entry = zipfile.ZipInfo(f"{name}/{name}")
                entry.external_attr = 0o755 << 16
                archive.writestr(entry, f"#!/usr/bin/env bash\n{body}\n")
        digest = base64.b64encode(hashlib.sha256(layer.read_bytes()).digest()).decode()
        answer = f"[[ $1 == lambda ]] && {{ printf '{digest}\\t{layer.as_uri()}\\n'; exit; }}"
        stand_in(tmp_path / "bin/aws", f"{answer}\n{aws}")
        return subprocess.run(
            ["bash", str(SCRIPTS / script)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C", **VARIABLES, **env},
        )

    return run


OUT_OF_REACH = [
    pytest.param({"aws": "exit 254"}, "cluster dpd-dev cannot be described", id="gone"),
    pytest.param({"kubectl": "exit 1"}, "no administrator access to cluster dpd-dev", id="no access"),
]


@pytest.mark.parametrize(("commands", "said"), OUT_OF_REACH)
def test_removal_leaves_a_cluster_of_the_stacks_that_is_out_of_reach(
    build: Run, tmp_path: Path, commands: dict[str, str], said: str
) -> None:
    signing_in = build("tools.sh", ACTION="uninstall", CLUSTER_IS_OURS="true", **commands)
    removal = build("release.sh", ACTION="uninstall")

    assert (signing_in.returncode, removal.returncode) == (0, 0), signing_in.stderr
    assert said in signing_in.stderr
    assert "it goes with cluster dpd-dev" in signing_in.stdout
    assert not (tmp_path / "helm.log").exists()


@pytest.mark.parametrize(("commands", "said"), OUT_OF_REACH)
@pytest.mark.parametrize(("action", "ours"), [("uninstall", "false"), ("install", "true")])
def test_any_other_build_fails_on_a_cluster_that_is_out_of_reach(
    build: Run, commands: dict[str, str], said: str, action: str, ours: str
) -> None:
    run = build("tools.sh", ACTION=action, CLUSTER_IS_OURS=ours, **commands)

    assert run.returncode == 1
    assert said in run.stderr


def test_removal_within_reach_removes(build: Run, tmp_path: Path) -> None:
    assert build("tools.sh", ACTION="uninstall", CLUSTER_IS_OURS="true").returncode == 0
    assert build("release.sh", ACTION="uninstall").returncode == 0

    assert (tmp_path / "helm.log").read_text().startswith("uninstall hyperpod-dependencies ")


def test_build_gets_every_variable_that_its_scripts_read(build_variables: set[str]) -> None:
    text = "".join(path.read_text() for path in SCRIPTS.glob("*.sh"))
    read = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", text)) - {"SECONDS", "FETCH_HEAD"}

    assert read <= build_variables


@pytest.fixture
def build_variables(environment_stacks: dict[str, dict[str, Any]]) -> set[str]:
    resources = environment_stacks["dev"]["hyperpod"]["Resources"].values()
    (project,) = (item["Properties"] for item in resources if item["Type"] == "AWS::CodeBuild::Project")
    (release,) = (item["Properties"] for item in resources if item["Type"] == "Custom::HyperPodBaseChart")
    fixed = {item["Name"] for item in project["Environment"]["EnvironmentVariables"]}
    return {*fixed, *release["Variables"], "ACTION"}


@pytest.mark.parametrize("environment", ["dev", "staging", "prod"])
def test_build_knows_that_the_cluster_is_ours(
    environment_stacks: dict[str, dict[str, Any]], environment: str
) -> None:
    assert cluster_is_ours(environment_stacks[environment]["hyperpod"]) == "true"


def cluster_is_ours(template: dict[str, Any]) -> str:
    (project,) = (
        item["Properties"]
        for item in template["Resources"].values()
        if item["Type"] == "AWS::CodeBuild::Project"
    )
    variables = {item["Name"]: item["Value"] for item in project["Environment"]["EnvironmentVariables"]}
    return variables["CLUSTER_IS_OURS"]
