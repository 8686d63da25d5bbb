"""The build's three scripts, run with a real git and stand-ins for aws, curl, helm and kubectl."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "constructs/dpd_constructs/base_chart_scripts"
FOLDER = "helm_chart/HyperPodHelmChart"


def shell(cwd: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{cwd / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path, "HOME": str(cwd), "LC_ALL": "C", **env},
    )


def stand_in(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)


@dataclass(frozen=True)
class Repository:
    """A repository with one commit that holds a chart."""

    path: Path
    commit: str
    archive_sha256: str


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "repository"
    chart = path / FOLDER
    (chart / "charts").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: hyperpod-helm-chart\nversion: 0.1.0\n")
    (chart / "charts" / "part.tgz").write_text("part")
    (path / "README.md").write_text("not in the archive\n")
    identity = {
        f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "chart"]):
        assert shell(path, "git", *command, **identity).returncode == 0
    commit = shell(path, "git", "rev-parse", "HEAD").stdout.strip()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, FOLDER], cwd=path, capture_output=True, check=True
    ).stdout
    return Repository(path, commit, hashlib.sha256(archive).hexdigest())


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Return a working folder with a helm that writes down its arguments."""
    folder = tmp_path / "build"
    stand_in(folder / "tools/helm/helm", 'echo "$@" >>helm.log')
    return folder


def fetch(build: Path, repository: Repository, **env: str) -> subprocess.CompletedProcess[str]:
    defaults = {
        "ACTION": "install",
        "REPOSITORY": repository.path.as_uri(),
        "COMMIT": repository.commit,
        "FOLDER": FOLDER,
        "ARCHIVE_SHA256": "",
    }
    return shell(build, "bash", str(SCRIPTS / "fetch.sh"), **{**defaults, **env})


def test_fetch_prints_and_exports_the_digest(build: Path, repository: Repository) -> None:
    run = fetch(build, repository)
    assert run.returncode == 0, run.stderr
    assert f"archive SHA-256 {repository.archive_sha256}" in run.stdout
    assert (build / "archive.sha256").read_text().strip() == repository.archive_sha256
    assert (build / "chart" / FOLDER / "Chart.yaml").exists()
    assert not (build / "chart" / "README.md").exists()
    assert (build / "helm.log").read_text() == f"dependency build chart/{FOLDER}\n"


def test_fetch_accepts_the_configured_digest(build: Path, repository: Repository) -> None:
    assert fetch(build, repository, ARCHIVE_SHA256=repository.archive_sha256).returncode == 0


def test_fetch_refuses_another_digest_and_tells_both(build: Path, repository: Repository) -> None:
    run = fetch(build, repository, ARCHIVE_SHA256="ab" * 32)
    assert run.returncode == 1
    assert f"SHA-256 is {repository.archive_sha256}, configured is {'ab' * 32}" in run.stderr
    assert not (build / "helm.log").exists()


def test_fetch_refuses_a_commit_that_is_not_there(build: Path, repository: Repository) -> None:
    run = fetch(build, repository, COMMIT="1" * 40)
    assert run.returncode != 0
    assert "1" * 40 in run.stderr
    assert not (build / "helm.log").exists()


def test_fetch_refuses_a_branch_that_moved(build: Path, repository: Repository) -> None:
    branch = shell(repository.path, "git", "branch", "--show-current").stdout.strip()
    run = fetch(build, repository, COMMIT=branch)
    assert run.returncode == 1
    assert f"fetched commit {repository.commit}, configured is {branch}" in run.stderr


def test_removal_needs_no_repository(build: Path, repository: Repository) -> None:
    assert fetch(build, repository, ACTION="uninstall", REPOSITORY="file:///nowhere").returncode == 0
    assert (build / "archive.sha256").read_text() == ""


@pytest.fixture
def bucket_archive(build: Path, repository: Repository) -> str:
    """Serve an archive of the chart from a stand-in for S3, and return its digest."""
    served = build / "served.tar"
    with served.open("wb") as file:
        subprocess.run(
            ["git", "archive", "--format=tar", repository.commit, FOLDER],
            cwd=repository.path,
            stdout=file,
            check=True,
        )
    stand_in(build / "bin/aws", 'echo "$@" >>aws.log; cp served.tar "${@: -1}"')
    return hashlib.sha256(served.read_bytes()).hexdigest()


S3 = "s3://mirror/charts/067d.tar"


def test_an_archive_from_a_bucket_brings_its_dependencies(
    build: Path, repository: Repository, bucket_archive: str
) -> None:
    run = fetch(build, repository, REPOSITORY=S3, ARCHIVE_SHA256=bucket_archive)
    assert run.returncode == 0, run.stderr
    assert (build / "aws.log").read_text() == f"s3 cp --only-show-errors {S3} chart.tar\n"
    assert (build / "chart" / FOLDER / "charts" / "part.tgz").read_text() == "part"
    assert (build / "archive.sha256").read_text().strip() == bucket_archive
    assert not (build / "helm.log").exists()
    assert not (build / "source").exists()


@pytest.mark.usefixtures("bucket_archive")
def test_an_archive_from_a_bucket_needs_its_digest(build: Path, repository: Repository) -> None:
    run = fetch(build, repository, REPOSITORY=S3)
    assert (run.returncode, run.stderr) == (1, "chart: an archive in a bucket needs its SHA-256\n")
    assert not (build / "aws.log").exists()


def test_an_exchanged_archive_is_refused(build: Path, repository: Repository, bucket_archive: str) -> None:
    run = fetch(build, repository, REPOSITORY=S3, ARCHIVE_SHA256="ab" * 32)
    assert run.returncode == 1
    assert f"SHA-256 is {bucket_archive}, configured is {'ab' * 32}" in run.stderr
    assert not (build / "chart").exists()


RELEASE = {
    "RELEASE": "hyperpod-dependencies",
    "NAMESPACE": "kube-system",
    "FOLDER": FOLDER,
    "VALUES": '{"mpi-operator":{"enabled":false}}',
    "HELM_TIMEOUT": "10m",
}


def test_release_upgrades_with_the_values(build: Path) -> None:
    run = shell(build, "bash", str(SCRIPTS / "release.sh"), ACTION="install", **RELEASE)
    assert run.returncode == 0, run.stderr
    assert (build / "values.json").read_text() == RELEASE["VALUES"]
    assert (build / "helm.log").read_text().splitlines()[0] == (
        f"upgrade --install hyperpod-dependencies chart/{FOLDER} --namespace kube-system "
        "--values values.json --timeout 10m --server-side=true --force-conflicts"
    )


def test_release_removal_ignores_what_is_not_there(build: Path) -> None:
    run = shell(build, "bash", str(SCRIPTS / "release.sh"), ACTION="uninstall", **RELEASE)
    assert run.returncode == 0, run.stderr
    assert (build / "helm.log").read_text() == (
        "uninstall hyperpod-dependencies --namespace kube-system --ignore-not-found --timeout 10m\n"
    )


def test_release_fails_when_helm_fails(build: Path) -> None:
    stand_in(build / "tools/helm/helm", 'echo "Error: UPGRADE FAILED" >&2; exit 1')
    run = shell(build, "bash", str(SCRIPTS / "release.sh"), ACTION="install", **RELEASE)
    assert (run.returncode, run.stderr) == (1, "Error: UPGRADE FAILED\n")


def tools(
    tmp_path: Path, *, code_sha256: str | None = None, kubectl: str = "echo yes"
) -> subprocess.CompletedProcess[str]:
    """Run tools.sh with a Lambda that serves a layer and a kubectl with the given body."""
    layer = tmp_path / "served.zip"
    with zipfile.ZipFile(layer, "w") as archive:
        entry = zipfile.ZipInfo("kubectl/kubectl")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, f"#!/usr/bin/env bash\n{kubectl}\n")
    digest = base64.b64encode(hashlib.sha256(layer.read_bytes()).digest()).decode()
    answer = f"{code_sha256 or digest}\\t{layer.as_uri()}"
    stand_in(tmp_path / "bin/aws", f'[[ $1 == lambda ]] && printf "{answer}\\n"; echo "$@" >>aws.log')
    return shell(
        tmp_path,
        "bash",
        str(SCRIPTS / "tools.sh"),
        KUBECTL_LAYER_ARN="arn:aws:lambda:us-west-2:111122223333:layer:tools:1",
        CLUSTER_NAME="dpd-dev",
        ACCESS_WAIT_S="0",
    )


def test_tools_come_from_the_layer(tmp_path: Path) -> None:
    run = tools(tmp_path)
    assert (run.returncode, run.stdout) == (0, "signed in to cluster dpd-dev\n"), run.stderr
    assert "eks update-kubeconfig --name dpd-dev" in (tmp_path / "aws.log").read_text()


def test_tools_refuse_an_archive_that_lambda_does_not_vouch_for(tmp_path: Path) -> None:
    run = tools(tmp_path, code_sha256="AAAA")
    assert run.returncode == 1
    assert "Lambda says AAAA" in run.stderr
    assert not (tmp_path / "tools").exists()


def test_tools_give_up_on_a_cluster_without_access(tmp_path: Path) -> None:
    run = tools(tmp_path, kubectl='echo "error: You must be logged in" >&2; exit 1')
    assert run.returncode == 1
    assert "no administrator access to cluster dpd-dev after 0 s: error: You must be logged in" in run.stderr


def test_buildspec_runs_each_script_in_a_phase_of_its_own() -> None:
    spec = yaml.safe_load((SCRIPTS / "buildspec.yml").read_text())
    first = {name: phase["commands"][0] for name, phase in spec["phases"].items()}
    assert first == {"install": "bash tools.sh", "pre_build": "bash fetch.sh", "build": "bash release.sh"}
    assert spec["env"]["exported-variables"] == ["ARCHIVE_SHA256_MEASURED"]


def test_scripts_pass_shellcheck() -> None:
    run = subprocess.run(
        ["shellcheck", *sorted(str(path) for path in SCRIPTS.glob("*.sh"))],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert run.returncode == 0, run.stdout
