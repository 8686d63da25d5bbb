"""Fixtures that several areas share: the repository's own configuration and its templates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog, load_catalog

ROOT = Path(__file__).resolve().parent.parent

# The operator's definition is AWS's and not part of this repository; a workspace may hold it beside the
# checkout. Without it the tests that need it are skipped, with this variable as the reason.
_CRD = ROOT.parent / "shared" / "crds" / "inferenceendpointconfigs.yaml"
if _CRD.exists():
    os.environ.setdefault("DPD_CRD", str(_CRD))

Templates = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """Return the configuration of the repository."""
    return load_catalog(ROOT / "config")


@pytest.fixture(scope="session")
def facts(catalog: Catalog) -> Facts:
    """Return the fact tables of the repository."""
    assert catalog.facts is not None, [finding.text() for finding in catalog.findings]
    return catalog.facts


@pytest.fixture(scope="session")
def environment_app(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return one synthesised App with every HyperPod environment.

    One for the whole session, without CDK's own validation: another test runs the native engine.
    """
    # Here, so that tests of the pure core need no Node.js.
    from dpd.nodejs import use_bundled_node

    use_bundled_node()
    from stacks.environment import add_environments, new_app

    app = new_app(tmp_path_factory.mktemp("cdk.out"), builtin_cloud_formation_validation=False)
    add_environments(app, catalog, hyperpod_environments(catalog))
    app.synth()
    return app


@pytest.fixture(scope="session")
def environment_stacks(catalog: Catalog, environment_app: Any) -> Templates:
    """Return the templates of every HyperPod environment, as environment -> stack suffix -> template."""
    stacks = environment_app.synth().stacks
    return {
        name: {
            stack.stack_name.removeprefix(f"dpd-{name}-"): stack.template
            for stack in stacks
            if stack.stack_name.startswith(f"dpd-{name}-")
        }
        for name in hyperpod_environments(catalog)
    }


def hyperpod_environments(catalog: Catalog) -> list[str]:
    """Return the names of the environments that have stacks."""
    return [
        name
        for name, loaded in catalog.environments.items()
        if loaded.value is not None and loaded.value.backend == "hyperpod"
    ]
