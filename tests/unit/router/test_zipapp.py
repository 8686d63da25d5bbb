import subprocess
import sys
import zipfile
from pathlib import Path

from click.testing import CliRunner

from dpd.cli import main
from dpd.router_zipapp import CONFIG_MAP_BYTES, build


def test_it_fits_a_config_map_three_times(tmp_path):
    assert build(tmp_path / "router.pyz") < CONFIG_MAP_BYTES / 3


def test_the_same_sources_give_the_same_bytes(tmp_path):
    build(tmp_path / "a.pyz")
    build(tmp_path / "b.pyz")
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()


def test_it_holds_every_module_of_the_router_and_no_command(tmp_path):
    build(tmp_path / "router.pyz")
    names = set(zipfile.ZipFile(tmp_path / "router.pyz").namelist())
    sources = Path("dpd/router").rglob("*.py")
    assert {str(path) for path in sources} <= names
    assert "dpd/cli.py" not in names


def test_it_runs_without_the_checkout(tmp_path):
    done = CliRunner().invoke(main, ["router", "build", "--out", str(tmp_path / "router.pyz")])
    assert done.exit_code == 0, done.output
    (tmp_path / "router.yaml").write_text("workers: {decode: ['http://d:1']}\nlisten: {prot: 1}\n")
    run = subprocess.run(
        [sys.executable, "-I", "router.pyz", "--check", "--config", "router.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("router.yaml:2: listen.prot: unknown key `prot`; did you mean `port`?")
