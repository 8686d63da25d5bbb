"""Fixtures of the unit layer: a copy of the repository's configuration that a test edits and checks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.rules import check as check_rules
from dpd.spec.catalog import Catalog, load_catalog

CONFIG = Path(__file__).resolve().parents[2] / "config"
FILES = {
    "dev": "environments/dev.yaml",
    "staging": "environments/staging.yaml",
    "prod": "environments/prod.yaml",
    "local": "environments/local.yaml",
    "llama": "models/llama-3.3-70b.yaml",
    "gpt": "models/gpt-oss-120b.yaml",
    "qwen3": "models/qwen3-32b.yaml",
    "llama405": "models/llama-3.1-405b.yaml",
    "tiny": "models/tiny-llama.yaml",
}

Edits = Mapping[str | tuple[str, ...], object]
"""Dotted path (a tuple where keys hold dots) to the new value; ``...`` removes the key."""


def edit(data: Any, path: str | tuple[str, ...], value: object) -> None:
    """Set one value in plain data, making the mappings on the way."""
    *parents, last = path.split(".") if isinstance(path, str) else path
    for key in parents:
        data = data.setdefault(key, {})
    if value is ...:
        del data[last]
    else:
        data[last] = value


class Workspace:
    """A configuration folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edited: set[str] = set()
        for part in ("environments", "models"):
            shutil.copytree(CONFIG / part, self.folder / part)

    def reset(self) -> None:
        """Take back every edit."""
        while self.edited:
            name = self.edited.pop()
            shutil.copyfile(CONFIG / FILES[name], self.path(name))

    def path(self, name: str) -> Path:
        """Return a file by its short name."""
        return self.folder / FILES[name]

    def edit(self, name: str, edits: Edits) -> None:
        """Change values of one file."""
        self.edited.add(name)
        data = yaml.load(self.path(name).read_text(encoding="utf-8"), yaml.CSafeLoader)
        for path, value in edits.items():
            edit(data, path, value)
        text = yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False)
        self.path(name).write_text(text, encoding="utf-8")

    def load(self, sets: Sequence[str] = ()) -> Catalog:
        """Load the folder."""
        return load_catalog(self.folder, sets)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: Facts) -> Workspace:
    """Return a configuration folder with the repository's facts, which are read once for all tests."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "facts").symlink_to(CONFIG / "facts")
    monkeypatch.setattr("dpd.spec.catalog.load_facts", lambda _: (facts, []))
    return Workspace(folder)


Check = Callable[..., list[Finding]]


@pytest.fixture
def check(workspace: Workspace) -> Check:
    """Return ``check(dev={path: value}, llama={...})``: the findings of the edited repository.

    The environment checked is the edited one, dev where none is; a model that dev does not list is
    tried there.
    """

    def run(*, sets: Sequence[str] = (), **files: Edits) -> list[Finding]:
        workspace.reset()
        for name, edits in files.items():
            workspace.edit(name, edits)
        environments = [name for name in files if FILES[name].startswith("environments")] or ["dev"]
        tried = [Path(FILES[name]).stem for name in files if name in {"gpt", "qwen3", "llama405"}]
        return check_rules(workspace.load(sets), environments, tried or None)

    return run


@pytest.fixture
def one_rule(check: Check) -> Callable[..., None]:
    """Return a check of one row: the bad edits give exactly this finding, the good ones do not."""

    def run(id: str, bad: dict[str, Edits], path: str, says: Sequence[str], good: dict[str, Edits]) -> None:
        findings = check(**bad)
        assert sorted(found.id for found in findings) == sorted({id, *known_warnings(bad)}), texts(findings)
        found = next(finding for finding in findings if finding.id == id)
        assert found.path == path
        for text in says:
            assert text in found.text()
        assert [finding.id for finding in check(**good)] == known_warnings(good)

    return run


def known_warnings(files: Mapping[str, Edits]) -> list[str]:
    """Return what prod reports about itself in the repository."""
    return ["CLU002", "IMG003"] if "prod" in files else []


def texts(findings: Sequence[Finding]) -> list[str]:
    """Return findings as a person reads them, for the message of a failed assertion."""
    return [finding.text() for finding in findings]
