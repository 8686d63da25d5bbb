"""Imports point one way, and the core needs neither AWS nor Kubernetes nor Node.js."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpd.router_zipapp import modules as router_modules

ROOT = Path(__file__).resolve().parents[2]
BASE = {
    "closed_model",
    "fact",
    "facts",
    "finding",
    "network_facts",
    "nodejs",
    "quantity",
    "versions",
    "yaml_file",
    "",
}
ALLOWED = {
    "base": {"base"},
    "spec": {"base", "spec"},
    "sizing": {"base", "spec", "sizing"},
    "rules": {"base", "spec", "sizing", "rules"},
    "router": {"base", "router"},
    "simulator": {"base", "simulator"},
    "k8s": {"base", "spec", "sizing", "k8s"},
    "constructs": {"base", "spec", "sizing", "constructs"},
    "stacks": {"base", "spec", "sizing", "constructs", "k8s", "stacks"},
    "application": {
        "base",
        "spec",
        "sizing",
        "rules",
        "router",
        "simulator",
        "k8s",
        "constructs",
        "stacks",
        "application",
    },
}
# What a worker image of LMCache 0.4.3 holds: requirements of lmcache and vLLM. uvloop is optional there.
ON_WORKER_IMAGES = {"aiohttp", "msgspec", "prometheus_client", "pydantic", "pydantic_core", "yaml", "zmq"}
# Imported where they are asked for alone, with a message for who lacks them.
ROUTER_OPTIONAL = {"opentelemetry"}
PURE = {"base", "spec", "sizing", "rules"}
HEAVY = {"aws_cdk", "boto3", "botocore", "cdk8s", "constructs", "jsii", "kubernetes", "rich", "sagemaker"}


def layer(module: str) -> str | None:
    """Return the layer of one of our modules, None for everybody else's."""
    top, *rest = module.split(".")
    if top in {"k8s", "stacks"}:
        return top
    if top == "dpd_constructs":
        return "constructs"
    if module == "app":
        return "application"
    if top != "dpd":
        return None
    part = rest[0] if rest else ""
    return part if part in ALLOWED else "base" if part in BASE else "application"


def modules() -> Iterator[tuple[str, Path]]:
    for folder in ("dpd", "k8s", "stacks", "constructs/dpd_constructs"):
        top = ROOT / folder
        for path in sorted(top.rglob("*.py")):
            if "handlers" in path.parts or "base_chart_scripts" in path.parts:
                continue  # These run inside AWS, without this package.
            parts = path.relative_to(top.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path
    yield "app", ROOT / "app.py"


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide their layer"
            yield node.module or ""
            if node.module in {"dpd", "dpd.rules"}:
                yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name.islower())


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_module_imports_only_layers_below_it(module: str, path: Path) -> None:
    own = layer(module)
    assert own is not None
    for name in imported(path):
        used = layer(name)
        assert used is None or used in ALLOWED[own], f"{module} ({own}) imports {name} ({used})"
        if own in PURE:
            assert name.partition(".")[0] not in HEAVY, f"{module} imports {name}"


def test_the_table_of_layers_has_no_circle() -> None:
    for name, below in ALLOWED.items():
        for other in below - {name}:
            assert name not in ALLOWED[other], f"{name} and {other} may import each other"


def test_check_runs_without_any_heavy_library() -> None:
    program = f"""
import sys
from click.testing import CliRunner
from dpd.cli import main
result = CliRunner().invoke(main, ["check"])
assert result.exit_code == 0, result.output
print(sorted({HEAVY!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_router_runs_on_a_worker_image() -> None:
    for module, path in router_modules().items():
        for name in imported(path):
            top = name.partition(".")[0]
            known = ON_WORKER_IMAGES | ROUTER_OPTIONAL | sys.stdlib_module_names | {"dpd"}
            assert top in known, f"{module} imports {name}, which worker images lack"
