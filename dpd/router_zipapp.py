"""Pack the router into one file that runs wherever Python and the worker image's packages are."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
_ENTRY: Final = "dpd.router.__main__"
_MAIN: Final = f"import sys\n\nfrom {_ENTRY} import main\n\nsys.exit(main())\n"
# The same bytes on every machine and day, so that an unchanged router changes no ConfigMap.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
CONFIG_MAP_BYTES: Final = 2**20
"""Most that all values of a ConfigMap may hold (Kubernetes documentation, page ConfigMap)."""


def modules() -> dict[str, Path]:
    """Return the router's own modules and every module of ours that they import, by dotted name."""
    found: dict[str, Path] = {}
    waiting = [_ENTRY]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if path is None or name in found:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *_imports(path)]
    return dict(sorted(found.items()))


def _file(module: str) -> Path | None:
    """Return the file of a module of ours."""
    top, _, rest = module.partition(".")
    if top != "dpd":
        return None
    base = _PACKAGE.joinpath(*rest.split(".")) if rest else _PACKAGE
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def build(out: Path) -> int:
    """Write the zipapp to ``out``, and return its size in bytes. The same sources give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in modules().values():
            _add(archive, str(path.relative_to(_PACKAGE.parent)), path.read_text(encoding="utf-8"))
        _add(archive, "__main__.py", _MAIN)
    return out.stat().st_size


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
