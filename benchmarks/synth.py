"""How long synthesis takes beside a minimal CDK app of the same resources: ``python benchmarks/synth.py``.

Each line is the fastest of several whole processes, by wall time and by CPU time (Python and its Node.js
together): interpreter, imports, configuration, building, writing. The minimal app imports the classes of the
same types and builds as many stacks with as many resources, each with the properties that the template
holds, by CDK's plainest construct: one call each, and no assets. Both run without Python's garbage
collector, as app.py does, and without CDK's own validation, which costs the same in either. Ours and the
minimal one take turns, so that a noisy or slow machine changes both. Below each line stands where the fastest
run spent its time. Aims: at most 1.3 times the minimal app, and three environments with five models each in
at most twice the time of one environment.
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "constructs")]

from dpd.nodejs import use_bundled_node  # noqa: E402 - the paths above come first

use_bundled_node()

RUNS = 5
MODELS = ("llama-3.3-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b", "llama-3.3-70b-long")
SETS = {"one environment": ("dev", 1), "all environments": ("", 1), "3 environments x 5 models": ("", 5)}


@dataclass
class Split:
    """Note how long each part of one process took, in seconds; the first begins with its imports."""

    since: float = field(default_factory=time.perf_counter)
    parts: dict[str, float] = field(default_factory=dict)

    def end(self, part: str) -> None:
        """End a part, and begin the next."""
        now = time.perf_counter()
        self.parts[part], self.since = now - self.since, now


def ours(environment: str, models: int, out: Path) -> Split:
    """Synthesise ``environment`` (empty: all of them) with the first ``models`` models."""
    split = Split()
    from dpd.rules import check
    from dpd.spec.catalog import load_catalog
    from dpd.spec.deployment import build_deployment
    from stacks.environment import build_environment, new_app

    split.end("import")
    catalog = load_catalog(ROOT / "config")
    facts, base = catalog.facts, catalog.models[MODELS[0]].value
    if facts is None or base is None:
        raise SystemExit("\n".join(finding.text() for finding in catalog.findings))
    # The same model under other names: what differs between real ones costs nothing here.
    served = [base.model_copy(update={"name": model}) for model in MODELS[:models]]
    chosen = [
        loaded.value
        for name, loaded in catalog.environments.items()
        if loaded.value is not None and loaded.value.backend == "hyperpod" and environment in {"", name}
    ]
    check(catalog, environments=[row.name for row in chosen])
    split.end("configuration")
    app = new_app(out, builtin_cloud_formation_validation=False)
    for row in chosen:
        build_environment(app, row, [build_deployment(row, model, facts) for model in served], facts)
    split.end("build")
    app.synth()
    split.end("synth")
    return split


def minimal(templates: Path, out: Path) -> Split:
    """Synthesise the resources of ``templates`` as plain resources, without any of our code."""
    split = Split()
    import aws_cdk as cdk

    stacks = json.loads(templates.read_text(encoding="utf-8"))
    for kind in {kind for resources in stacks.values() for _, kind, _ in resources}:
        _class_of(kind)
    split.end("import")
    app = cdk.App(outdir=str(out), analytics_reporting=False, builtin_cloud_formation_validation=False)
    for name, resources in stacks.items():
        stack = cdk.Stack(app, name)
        for logical_id, kind, properties in resources:
            cdk.CfnResource(stack, logical_id, type=kind, properties=properties)
    split.end("build")
    app.synth()
    split.end("synth")
    return split


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


@dataclass(frozen=True)
class Run:
    """Hold what one process took, in seconds."""

    wall_s: float
    cpu_s: float
    parts: Mapping[str, float]

    def text(self) -> str:
        """Return the split; what no part covers is interpreter, start of Node.js, and end."""
        rest = {"rest": self.wall_s - sum(self.parts.values())}
        return ", ".join(f"{part} {seconds:.2f}" for part, seconds in {**self.parts, **rest}.items())


def run(*arguments: str) -> Run:
    """Run this script in a process of its own; its CPU time includes the Node.js that it waits for."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, __file__, *arguments], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} ended with {process.returncode}")
    return Run(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, json.loads(printed))


def compare() -> None:
    """Print three lines for each set."""
    head = f"{'ours s':>9}{'minimal s':>11}{'ratio':>7}{'ours CPU s':>12}{'minimal CPU s':>15}{'ratio':>7}"
    print(f"{'what':28}{'stacks':>7}{'resources':>11}{head}")
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (environment, models)) in enumerate(SETS.items()):
            out, plain = Path(folder) / f"ours{number}", Path(folder) / f"plain{number}.json"
            our_arguments = ["ours", environment, str(models), str(out)]
            run(*our_arguments)  # warms the file cache, and writes what the minimal app copies
            stacks = plain_resources(out)
            plain.write_text(json.dumps(stacks), encoding="utf-8")
            their_arguments = ["minimal", str(plain), f"{out}-minimal"]
            pairs = [(run(*our_arguments), run(*their_arguments)) for _ in range(RUNS)]
            best[name] = _print_line(name, stacks, *zip(*pairs, strict=True))
    first, *_, last = best.values()
    print(f"the last against the first: {last / first:.2f}")


def _print_line(
    name: str, stacks: Mapping[str, Any], mine: tuple[Run, ...], theirs: tuple[Run, ...]
) -> float:
    """Print one set, and return the wall time of ours."""
    fastest, other = (min(runs, key=lambda one: one.wall_s) for runs in (mine, theirs))
    cpu_s, other_cpu_s = (min(one.cpu_s for one in runs) for runs in (mine, theirs))
    wall = f"{fastest.wall_s:9.2f}{other.wall_s:11.2f}{fastest.wall_s / other.wall_s:7.2f}"
    cpu = f"{cpu_s:12.2f}{other_cpu_s:15.2f}{cpu_s / other_cpu_s:7.2f}"
    print(f"{name:28}{len(stacks):7}{sum(map(len, stacks.values())):11}{wall}{cpu}")
    print(f"  ours:    {fastest.text()}\n  minimal: {other.text()}")
    return fastest.wall_s


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
    gc.disable()
    os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")
    match part:
        case ["compare"]:
            compare()
        case ["profile"]:
            profile("dev", 1)
        case ["ours", environment, models, out]:
            print(json.dumps(ours(environment, int(models), Path(out)).parts))
        case ["minimal", templates, out]:
            print(json.dumps(minimal(Path(templates), Path(out)).parts))
        case _:
            parser.error(f"unknown part {part[0]}")


if __name__ == "__main__":
    main()
