"""`dpd synth` writes whole bundles or none, the same bytes each time, with no credentials or network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpd import synth
from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.selection import Selection
from dpd.spec.catalog import Catalog

ROOT = Path(__file__).parents[2]


def dpd(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command with an empty environment: no credentials, no region, no home."""
    return subprocess.run(
        [sys.executable, "-m", "dpd", *args],
        cwd=cwd,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "/tmp")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_writes_templates_manifests_and_plan_twice_alike(tmp_path: Path) -> None:
    for name in ("one", "two"):
        result = dpd("synth", "--env", "dev", "--out", str(tmp_path / name))
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == f"wrote {tmp_path / name / 'dev'}\n"
    one = files(tmp_path / "one")
    assert one == files(tmp_path / "two")
    assert {"dev/plan.json", "dev/manifests/llama-3-3-70b.yaml", "dev/cdk/manifest.json"} <= set(one)
    assert json.loads(one["dev/plan.json"])["environment"] == "dev"


def test_the_bundle_names_no_place_of_this_machine(tmp_path: Path) -> None:
    dpd("synth", "--env", "dev", "--out", str(tmp_path))
    places = [str(ROOT).encode(), str(tmp_path).encode(), str(Path.home()).encode()]
    assert [
        name for name, data in files(tmp_path).items() if any(len(p) > 1 and p in data for p in places)
    ] == []


def test_wrong_configuration_writes_nothing(tmp_path: Path) -> None:
    result = dpd("synth", "--env", "dev", "--out", str(tmp_path / "out"), "--set", "dpd.pd_buffer=8")
    assert result.returncode == 1
    assert "CFG003" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_unknown_environment_is_wrong_usage(tmp_path: Path) -> None:
    result = dpd("synth", "--env", "deb", "--out", str(tmp_path / "out"))
    assert result.returncode == 2
    assert "unknown environment `deb`; did you mean `dev`? known: dev, local, prod, staging" in result.stderr


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    result = dpd("synth", "--env", "dev", "--out", str(tmp_path / "out"))
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_foreign_files_are_not_deleted(tmp_path: Path) -> None:
    mine = tmp_path / "dev" / "keep.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    result = dpd("synth", "--env", "dev", "--out", str(tmp_path))
    assert result.returncode == 2
    assert "holds keep.txt" in result.stderr
    assert mine.read_text() == "mine"


def test_being_ended_leaves_no_half_bundle(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dpd", "synth", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list(tmp_path.glob("out/.*/*/manifests")):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert not list(tmp_path.glob("out/.*"))


def test_a_model_without_manifests_is_a_finding(tmp_path: Path) -> None:
    result = dpd("manifests", "--env", "dev", "--model", "gpt-oss-120b")
    assert result.returncode == 1
    assert "[OPR011]" in result.stderr
    assert result.stdout == ""


def test_an_error_in_validation_leaves_the_old_bundle(
    catalog: Catalog, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = Selection(("dev",), None)
    assert synth.synthesise(catalog, facts, selection, tmp_path, validate=False)[0] == [tmp_path / "dev"]
    before = files(tmp_path / "dev")

    def refuse(folder: Path, *_: object) -> list[Finding]:
        file = folder / "cdk" / "dpd-dev-network.template.json"
        return [Finding("VAL001", Severity.ERROR, "Vpc", "seeded", file=str(file))]

    monkeypatch.setattr("dpd.validation.validate_bundle", refuse)
    written, findings = synth.synthesise(catalog, facts, selection, tmp_path, validate=True)
    assert written == []
    assert files(tmp_path / "dev") == before
    assert Path(findings[0].file).exists()
    assert Path(findings[0].file).is_relative_to(tmp_path / "dev.rejected")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev", "dev.rejected"]

    monkeypatch.undo()
    synth.synthesise(catalog, facts, selection, tmp_path, validate=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev"]


def test_an_interruption_leaves_the_old_bundle(
    catalog: Catalog, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "plan.json").write_text("old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(synth, "build_plan", interrupt)
    with pytest.raises(KeyboardInterrupt):
        synth.synthesise(catalog, facts, Selection(("dev",), None), tmp_path, validate=False)
    assert files(tmp_path) == {"dev/plan.json": b"old"}
