"""Write templates and manifests of environments below one folder, each whole or not at all."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from dpd.facts import Facts
from dpd.finding import Finding, has_errors
from dpd.plan import build_plan, to_json
from dpd.project import use_checkout
from dpd.render import render_model
from dpd.rules import check
from dpd.selection import Selection
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment

ASSEMBLY = "cdk"
MANIFESTS = "manifests"
PLAN = "plan.json"
_CONTENT = {ASSEMBLY, MANIFESTS, PLAN}


def synthesise(
    catalog: Catalog, facts: Facts, selection: Selection, out: Path, *, validate: bool
) -> tuple[list[Path], list[Finding]]:
    """Write ``out/<env>/`` for each chosen environment on HyperPod and return the folders written.

    A folder holds ``cdk/`` (a cloud assembly: `cdk deploy --app <folder>/cdk`), ``manifests/`` and
    ``plan.json``. A bundle with an error, in validation or rendering, goes to ``out/<env>.rejected``
    for inspection, and ``out/<env>`` stays as it was. Raises FileExistsError, before anything is
    written, where something else than a bundle is in the way.
    """
    use_checkout()
    values = [catalog.environments[name].value for name in selection.environments]
    environments = {value.name: value for value in values if isinstance(value, Environment)}
    for name in environments:
        _refuse_foreign(out / name)
        _refuse_foreign(out / f"{name}.rejected")
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".synth-", dir=out))
    # CDK's Node.js, which an interruption does not reach, may still write. The hook that waits for its
    # end is registered by the first import of jsii, below, and hooks run last one first.
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    written: list[Path] = []
    findings: list[Finding] = []
    try:
        for name, environment in environments.items():
            staging = work / name
            staging.mkdir()
            found = _write(catalog, facts, environment, selection, staging, validate=validate)
            rejected = out / f"{name}.rejected"
            target = rejected if has_errors(found) else out / name
            findings += [_moved(finding, staging, target) for finding in found]
            _replace(staging, target)
            if target is not rejected:
                written.append(target)
                shutil.rmtree(rejected, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return written, findings


def _write(
    catalog: Catalog,
    facts: Facts,
    environment: Environment,
    selection: Selection,
    folder: Path,
    *,
    validate: bool,
) -> list[Finding]:
    from stacks.environment import synth_app

    models = selection.models_of(environment)
    findings = _write_manifests(catalog, facts, environment, models, folder / MANIFESTS)
    if has_errors(findings):
        return findings
    # CDK's own validation runs in WebAssembly and takes longer than everything else together;
    # `validate` runs the same rules natively, and `cdk deploy` runs CDK's.
    synth_app(
        catalog,
        [environment.name],
        folder / ASSEMBLY,
        models=models,
        builtin_cloud_formation_validation=False,
    )
    own = check(catalog, [environment.name], models)
    plan = to_json(build_plan(catalog, facts, environment, models, own), explain=True)
    (folder / PLAN).write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")
    if validate:
        from dpd.validation import validate_bundle

        findings += validate_bundle(folder, environment, facts)
    return findings


def _write_manifests(
    catalog: Catalog, facts: Facts, environment: Environment, models: list[str], folder: Path
) -> list[Finding]:
    folder.mkdir()
    findings: list[Finding] = []
    for name in models:
        model = catalog.effective(environment.name, name)[0].value
        if model is None:
            continue
        text, found = render_model(build_deployment(environment, model, facts))
        findings += found
        if text:
            (folder / f"{model.kubernetes_name}.yaml").write_text(text, encoding="utf-8")
    return findings


def _refuse_foreign(target: Path) -> None:
    """Keep what somebody else put there: a bundle is replaced whole."""
    foreign = sorted({path.name for path in target.iterdir()} - _CONTENT) if target.is_dir() else []
    if foreign:
        raise FileExistsError(
            f"{target} holds {foreign[0]}, which `dpd synth` did not write and would delete; move it away or "
            "choose another --out"
        )


def _moved(finding: Finding, staging: Path, target: Path) -> Finding:
    return replace(finding, file=finding.file.replace(str(staging), str(target)))


def _replace(staging: Path, target: Path) -> None:
    """Put ``staging`` where ``target`` is; an interruption leaves the old folder or the new one."""
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}-old-{os.getpid()}")
    target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)
