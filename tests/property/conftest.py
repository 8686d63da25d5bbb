"""Fixtures of the property layer: findings of plain data, as if it stood in files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.rules import check
from dpd.spec.catalog import load_catalog

Data = dict[str, Any]
Findings = Callable[..., list[Finding]]


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: Facts) -> Findings:
    """Return a function that writes one environment and one model, and returns what is found in them.

    ``names`` are those of the two files. Paths in findings are relative to the folder, which is another one
    each time.
    """
    monkeypatch.setattr("dpd.spec.catalog.load_facts", lambda _: (facts, []))

    def run(
        environment: Data, model: Data, names: tuple[str, str] = ("dev", "llama-3.3-70b")
    ) -> list[Finding]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        parts = zip(("environments", "models"), names, (environment, model), strict=True)
        for part, name, data in parts:
            (folder / part).mkdir()
            text = yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False)
            (folder / part / f"{name}.yaml").write_text(text, encoding="utf-8")
        found = check(load_catalog(folder))
        shutil.rmtree(folder)
        return [Finding(**asdict(item) | {"file": item.file.removeprefix(f"{folder}/")}) for item in found]

    return run
