"""The folder `constructs/` and the PyPI package `constructs` live side by side (report P-76)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_folder_has_no_init_file() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()


def test_folder_holds_one_uniquely_named_package() -> None:
    assert [path.parent.name for path in (ROOT / "constructs").glob("*/__init__.py")] == ["dpd_constructs"]
    assert list((ROOT / "constructs").glob("*.py")) == []


@pytest.mark.parametrize("first", ["constructs", "dpd_constructs"])
def test_both_packages_import_in_a_fresh_process(first: str) -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'constructs')!r}]\n"
        "from dpd.nodejs import use_bundled_node; use_bundled_node()\n"
        f"import {first}\n"
        "from constructs import Construct; import dpd_constructs; print(Construct.__name__)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "Construct"), run.stderr
