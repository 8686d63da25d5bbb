"""How long synthesis takes beside a minimal CDK app of the same resources: ``python benchmarks/synth.py``.

Each line is the fastest of several whole processes: interpreter, imports, building, writing. The minimal
app imports the classes of the same types and builds as many stacks with as many resources, each with the
properties that the template holds, by CDK's plainest construct: one call each, and no assets. Ours and
the minimal one take turns, so that a noisy or slow machine changes both. Aims: at most 1.3 times the
minimal app, and three environments with five models each in at most twice the time of one environment.
Both are without CDK's own validation, which costs the same in either.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import importlib
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "constructs")]

from dpd.nodejs import use_bundled_node  # noqa: E402 - the paths above come first

use_bundled_node()

RUNS = 5
MODELS = ("llama-3.3-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b", "llama-3.3-70b-long")
SETS = {"one environment": ("dev", 1), "all environments": ("", 1), "3 environments x 5 models": ("", 5)}


def ours(environment: str, models: int, out: Path) -> None:
    """Synthesise ``environment`` (empty: all of them) with the first ``models`` models."""
    gc.disable()  # as app.py does
    from dpd.spec.catalog import load_catalog
    from dpd.spec.deployment import build_deployment
    from stacks.environment import build_environment, new_app

    catalog = load_catalog(ROOT / "config")
    facts = catalog.facts
    if facts is None:
        raise SystemExit("\n".join(finding.text() for finding in catalog.findings))
    base = catalog.models[MODELS[0]].value
    if base is None:
        raise SystemExit(f"{MODELS[0]} is not a valid model")
    app = new_app(out, builtin_cloud_formation_validation=False)
    for name, loaded in catalog.environments.items():
        if loaded.value is None or loaded.value.backend != "hyperpod" or environment not in {"", name}:
            continue
        # The same model under other names: what differs between real ones costs nothing here.
        served = [base.model_copy(update={"name": model}) for model in MODELS[:models]]
        deployments = [build_deployment(loaded.value, model, facts) for model in served]
        build_environment(app, loaded.value, deployments, facts)
    app.synth()


def minimal(templates: Path, out: Path) -> None:
    """Synthesise the resources of ``templates`` as plain resources, without any of our code."""
    import aws_cdk as cdk

    app = cdk.App(outdir=str(out), analytics_reporting=False, builtin_cloud_formation_validation=False)
    stacks = json.loads(templates.read_text(encoding="utf-8"))
    for kind in {kind for resources in stacks.values() for _, kind, _ in resources}:
        _class_of(kind)
    for name, resources in stacks.items():
        stack = cdk.Stack(app, name)
        for logical_id, kind, properties in resources:
            cdk.CfnResource(stack, logical_id, type=kind, properties=properties)
    app.synth()


def _class_of(kind: str) -> type | None:
    """Import the class that CDK has for a type, as whoever writes an app does; None for custom ones."""
    vendor, service, *name = kind.split("::")
    if vendor != "AWS":
        return None
    module = "aws_eks_v2" if service == "EKS" else f"aws_{service.lower()}"
    return getattr(importlib.import_module(f"aws_cdk.{module}"), f"Cfn{name[0]}", None)


def plain_resources(assembly: Path) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Return id, type and properties of every resource, without what refers to another one."""
    return {
        file.name.removesuffix(".template.json"): [
            (logical_id, resource["Type"], _without_references(resource.get("Properties", {})))
            for logical_id, resource in json.loads(file.read_text(encoding="utf-8"))["Resources"].items()
        ]
        for file in sorted(assembly.glob("*.template.json"))
    }


def _without_references(value: Any) -> Any:
    if isinstance(value, dict):
        if any(key == "Ref" or key.startswith("Fn::") for key in value):
            return "reference"
        return {key: _without_references(item) for key, item in value.items()}
    return [_without_references(item) for item in value] if isinstance(value, list) else value


def seconds(*arguments: str) -> float:
    """Return the wall time of this script in a process of its own."""
    start = time.perf_counter()
    subprocess.run([sys.executable, __file__, *arguments], check=True, cwd=ROOT)
    return time.perf_counter() - start


def compare() -> None:
    """Print one line for each set."""
    print(f"{'what':28}{'stacks':>7}{'resources':>11}{'ours s':>9}{'minimal s':>11}{'ratio':>7}")
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (environment, models)) in enumerate(SETS.items()):
            out, plain = Path(folder) / f"ours{number}", Path(folder) / f"plain{number}.json"
            our_arguments = ["ours", environment, str(models), str(out)]
            seconds(*our_arguments)  # warms the file cache, and writes what the minimal app copies
            stacks = plain_resources(out)
            plain.write_text(json.dumps(stacks), encoding="utf-8")
            their_arguments = ["minimal", str(plain), f"{out}-minimal"]
            pairs = [(seconds(*our_arguments), seconds(*their_arguments)) for _ in range(RUNS)]
            mine, theirs = (min(column) for column in zip(*pairs, strict=True))
            best[name] = mine
            count = sum(map(len, stacks.values()))
            print(f"{name:28}{len(stacks):7}{count:11}{mine:9.2f}{theirs:11.2f}{mine / theirs:7.2f}")
    first, *_, last = best.values()
    print(f"{'the last against the first':28}{last / first:45.2f}")


def profile(environment: str, models: int) -> None:
    """Print where the time goes in Python, jsii calls included."""
    profiler = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        profiler.runcall(ours, environment, models, Path(folder))
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)


def main() -> None:
    """Compare, or do one part as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help="nothing: compare; `profile`: where the time goes")
    part = parser.parse_args().part or ["compare"]
    os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")
    match part:
        case ["compare"]:
            compare()
        case ["profile"]:
            profile("dev", 1)
        case ["ours", environment, models, out]:
            ours(environment, int(models), Path(out))
        case ["minimal", templates, out]:
            minimal(Path(templates), Path(out))
        case _:
            parser.error(f"unknown part {part[0]}")


if __name__ == "__main__":
    main()
