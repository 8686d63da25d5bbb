"""What is said of a machine that cannot run the engines."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from dpd.facts import Facts
from dpd.local.host import memory_findings, platform_findings
from dpd.quantity import GIB
from dpd.spec.local_deployment import LocalDeployment


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a file like /proc/cpuinfo of a machine that can."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    file = tmp_path / "cpuinfo"
    file.write_text("flags : sse4_2 avx avx2 fma\n", encoding="utf-8")
    return file


def test_linux_with_avx2_can(linux: Path) -> None:
    assert platform_findings(linux) == []


def test_a_processor_without_avx2_cannot(linux: Path) -> None:
    linux.write_text("flags : sse4_2 avx\n", encoding="utf-8")
    (finding,) = platform_findings(linux)
    assert (finding.id, finding.got) == ("LOC101", "a processor without AVX2")


@pytest.mark.parametrize(
    ("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")]
)
def test_another_system_cannot_and_is_offered_the_simulator(
    linux: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    (finding,) = platform_findings(linux)
    assert finding.got == f"{system} on {machine}"
    assert "--engine simulated" in finding.fix


def test_enough_memory_is_no_finding(deployment: LocalDeployment, facts: Facts) -> None:
    assert memory_findings(deployment, facts, to_start=2, available_bytes=8 * GIB) == []


def test_too_little_memory_says_how_much_and_what_to_lower(deployment: LocalDeployment, facts: Facts) -> None:
    (finding,) = memory_findings(deployment, facts, to_start=2, available_bytes=4 * GIB)
    assert finding.id == "LOC102"
    assert "2 engines of 2.5 GiB and a reserve of 1.0 GiB need 6.0 GiB, 4.0 GiB are free" in finding.message
    assert "local.kv_cache" in finding.fix


def test_what_runs_already_needs_no_memory(deployment: LocalDeployment, facts: Facts) -> None:
    assert memory_findings(deployment, facts, to_start=0, available_bytes=0) == []
