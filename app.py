"""Build the stacks of one environment, or of all: ``cdk synth -c env=dev``.

Context: ``env`` names an environment (default: every one on HyperPod), ``config`` the folder with
environments/, models/ and facts/ (default: config).
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"

# `.venv/bin/cdk` runs this file with the python3 of the PATH, which lacks the packages unless the
# environment is activated.
if find_spec("aws_cdk") is None and (VENV / "bin/python").exists() and Path(sys.prefix) != VENV:
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])  # noqa: S606 - no shell wanted

sys.path.insert(0, str(ROOT / "constructs"))

from dpd.finding import has_errors
from dpd.nodejs import use_bundled_node
from dpd.rules import check
from dpd.spec.catalog import Catalog, load_catalog

use_bundled_node()
# CDK's modules hold objects by the million, none of which becomes garbage in the seconds that this process
# lives; walking them while they are imported takes longer than reading the whole configuration.
gc.disable()

from stacks.environment import add_environments, new_app


def main() -> None:
    """Check the configuration, then synthesise; exit 1 on error findings, 2 on wrong usage."""
    app = new_app()
    config_dir = Path(str(app.node.try_get_context("config") or os.path.relpath(ROOT / "config")))
    catalog = load_catalog(config_dir)
    names = environment_names(catalog, app.node.try_get_context("env"))
    findings = check(catalog, environments=names)
    sys.stderr.writelines(f"{finding.text()}\n" for finding in findings)
    if has_errors(findings):
        sys.exit(1)
    add_environments(app, catalog, names)
    app.synth()


def environment_names(catalog: Catalog, chosen: object) -> list[str]:
    """Return the environments to build; ``chosen`` is the context value, None for all."""
    on_hyperpod = [
        name
        for name, loaded in catalog.environments.items()
        if loaded.value is None or loaded.value.backend == "hyperpod"
    ]
    if chosen is None or not catalog.environments:
        return on_hyperpod
    if chosen not in catalog.environments:
        stop(f"unknown environment {chosen!r}; known: {', '.join(catalog.environments)}")
    if chosen not in on_hyperpod:
        stop(f"environment {chosen!r} runs on this machine and has no stacks")
    return [str(chosen)]


def stop(message: str) -> NoReturn:
    """Say what is wrong with the command line, and exit 2."""
    sys.stderr.write(f"app.py: {message}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
