"""The stacks of an environment: their order, their protection, and that synthesis repeats itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def assembly(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the whole assembly of dev and prod, with CDK's own validation."""
    use_bundled_node()
    from stacks.environment import synth_app

    return Path(synth_app(catalog, ["dev", "prod"], tmp_path_factory.mktemp("first")).directory)


@pytest.fixture(scope="module")
def stacks(assembly: Path) -> Manifest:
    manifest = json.loads((assembly / "manifest.json").read_text())
    return {
        name: artifact
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }


def test_deployment_order_is_a_chain(stacks: Manifest) -> None:
    def needs(name: str) -> set[str]:
        return {other for other in stacks[name]["dependencies"] if not other.endswith(".assets")}

    model = "dpd-dev-model-llama-3-3-70b"
    assert needs("dpd-dev-network") == set()
    assert needs("dpd-dev-weights") == set()
    assert needs("dpd-dev-cluster") == {"dpd-dev-network"}
    assert needs("dpd-dev-hyperpod") >= {"dpd-dev-cluster"}
    assert needs("dpd-dev-operator") >= {"dpd-dev-hyperpod", "dpd-dev-weights"}
    assert needs(model) >= {"dpd-dev-operator"}


def test_environments_do_not_depend_on_each_other(stacks: Manifest) -> None:
    for name, artifact in stacks.items():
        prefix = "-".join(name.split("-")[:2])
        assert all(other.startswith(prefix) for other in artifact["dependencies"]), name


def test_only_protected_environments_refuse_termination(stacks: Manifest) -> None:
    protected = {name for name, item in stacks.items() if item["properties"].get("terminationProtection")}
    assert protected == {name for name in stacks if name.startswith("dpd-prod-")}


def test_templates_fit_any_account(assembly: Path, stacks: Manifest) -> None:
    assert {item["environment"] for item in stacks.values()} == {
        "aws://unknown-account/us-west-2",
        "aws://unknown-account/us-east-1",
    }


def test_synthesis_repeats_itself_byte_for_byte(catalog: Catalog, assembly: Path, tmp_path: Path) -> None:
    from stacks.environment import synth_app

    again = Path(synth_app(catalog, ["dev", "prod"], tmp_path).directory)
    files = {path.relative_to(assembly) for path in assembly.rglob("*") if path.is_file()}
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    for file in sorted(files):
        assert (assembly / file).read_bytes() == (again / file).read_bytes(), file
