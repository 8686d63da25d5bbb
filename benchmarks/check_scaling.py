"""What `dpd check` costs as configurations grow: ``python benchmarks/check_scaling.py``.

Writes copies of the repository's environments and models, each environment serving every model, and
times the check in this process and as a command. Prints seconds, the ratio to the smallest size and
how well a straight line fits, and draws ``check_scaling.svg`` beside this file. Aim: under 2 s for 10
environments of 50 models on a 2-core machine, and linear.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from commands import fastest_s

from dpd.rules import check
from dpd.spec.catalog import load_catalog

CONFIG = Path(__file__).resolve().parent.parent / "config"
CHART = Path(__file__).with_suffix(".svg")
SIZES = ((1, 1), (1, 10), (2, 20), (5, 20), (5, 50), (10, 50))
RUNS = 5
AIM_S = 2.0


@dataclass(frozen=True)
class Cost:
    """Hold what one size costs; ``pairs`` counts models times the environments that serve them."""

    environments: int
    models: int
    in_process_s: float
    command_s: float

    @property
    def pairs(self) -> int:
        """Return how often a model is checked."""
        return self.environments * self.models


def write_configuration(folder: Path, environments: int, models: int) -> None:
    """Fill ``folder`` with renamed copies of the repository's files."""
    folder.mkdir()
    (folder / "facts").symlink_to(CONFIG / "facts")
    names = [f"model-{index:03}" for index in range(models)]
    sources = [read(path) for path in sorted((CONFIG / "models").glob("*.yaml"))]
    for index, name in enumerate(names):
        write(folder / "models" / f"{name}.yaml", sources[index % len(sources)] | {"name": name})
    places = [read(path) for path in sorted((CONFIG / "environments").glob("*.yaml"))]
    for index in range(environments):
        place = places[index % len(places)]
        # The dearest case: every environment changes every model, so nothing is validated only once.
        overrides = {name: {"workload": {"concurrency": 8 + index}} for name in names}
        name = f"place-{index:03}"
        copied = {"name": name, "models": names, "overrides": overrides}
        write(folder / "environments" / f"{name}.yaml", place | copied)


def read(path: Path) -> dict[str, Any]:
    """Return the content of a YAML file."""
    data: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return data


def write(path: Path, data: dict[str, Any]) -> None:
    """Write ``data`` as YAML, with the folder on the way."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


def least_s(run: Callable[[], object], runs: int = RUNS) -> float:
    """Return the least wall time of ``runs`` runs, after one that warms up."""
    run()
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(folder: Path, environments: int, models: int) -> Cost:
    """Return what one size costs, written below ``folder``."""
    config = folder / f"{environments}x{models}"
    write_configuration(config, environments, models)
    command = [sys.executable, "-c", _COMMAND, str(config)]
    return Cost(
        environments, models, least_s(lambda: check(load_catalog(config))), fastest_s(command, runs=3)
    )


# Copies have findings, and the benchmark wants exit code 0.
_COMMAND = """
import sys
from dpd.cli import main
try:
    main(["check", "--config-dir", sys.argv[1]])
except SystemExit:
    pass
"""


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return intercept, slope and R squared of the least-squares line through ``points``."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    left = sum((y - intercept - slope * x) ** 2 for x, y in points)
    return intercept, slope, 1 - left / sum((y - mean_y) ** 2 for _, y in points)


def chart(costs: Sequence[Cost]) -> str:
    """Return an SVG of both costs against the number of pairs, with the aim as a line."""
    most_x, most_y = max(cost.pairs for cost in costs), max(AIM_S, *(cost.command_s for cost in costs)) * 1.05

    def at(pairs: float, seconds: float) -> tuple[float, float]:
        return 60 + pairs / most_x * 520, 320 - seconds / most_y * 280

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 370" font-size="12">',
        "<style>text{font-family:sans-serif}</style>",
        '<rect width="640" height="370" fill="#fff"/>',
        '<path d="M60 30V320H600" fill="none" stroke="#444"/>',
        '<text x="330" y="358" text-anchor="middle">models x environments</text>',
        '<text x="16" y="24">seconds</text>',
    ]
    for pairs in sorted({cost.pairs for cost in costs if cost.pairs >= most_x / 10}):
        x, y = at(pairs, 0)
        parts.append(f'<text x="{x:.0f}" y="{y + 18:.0f}" text-anchor="middle">{pairs}</text>')
    for seconds in (0.5, 1.0, 1.5, AIM_S):
        x, y = at(0, seconds)
        parts.append(f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{seconds:g}</text>')
    (_, y), (right, _) = at(0, AIM_S), at(most_x, 0)
    parts.append(f'<path d="M60 {y:.0f}H{right:.0f}" stroke="#c33" stroke-dasharray="5 4"/>')
    parts.append(f'<text x="{right:.0f}" y="{y - 6:.0f}" text-anchor="end" fill="#c33">aim</text>')
    series = (("as a command", "#2a6fb0", "command_s"), ("in process", "#2e8b57", "in_process_s"))
    for row, (label, colour, key) in enumerate(series):
        places = [at(cost.pairs, getattr(cost, key)) for cost in costs]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(f'<text x="80" y="{80 + row * 18}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Measure every size, print the table and the fit, and draw the chart."""
    with tempfile.TemporaryDirectory() as folder:
        costs = [measure(Path(folder), environments, models) for environments, models in SIZES]
    first = costs[0]
    print(f"{'size':>8}{'pairs':>7}{'in process s':>14}{'ratio':>8}{'command s':>11}{'ratio':>8}")
    for cost in costs:
        print(
            f"{cost.environments:>4} x{cost.models:>2}{cost.pairs:>7}{cost.in_process_s:14.3f}"
            f"{cost.in_process_s / first.in_process_s:8.1f}{cost.command_s:11.3f}"
            f"{cost.command_s / first.command_s:8.1f}"
        )
    intercept, slope, fit = line([(cost.pairs, cost.in_process_s) for cost in costs])
    print(f"in process: {intercept:.3f} s + {slope * 1e3:.2f} ms per pair, R squared {fit:.4f}")
    CHART.write_text(chart(costs), encoding="utf-8")
    print(f"wrote {CHART.name}")


if __name__ == "__main__":
    main()
