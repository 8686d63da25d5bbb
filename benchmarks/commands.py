"""How long commands take, as multiples of starting Python: ``python benchmarks/commands.py``.

Each line is the fastest of several runs; ratios are within one run of this script, so that a noisy
or a slow machine changes both sides. Aims: `dpd check` under 0.5 s and `dpd plan` under 1 s on a
2-core machine, neither of them starting Node.js.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7


def fastest_s(command: Sequence[str], runs: int = RUNS) -> float:
    """Return the least wall time of ``runs`` runs, after one that warms the file cache."""
    times: list[float] = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def starts_node(command: Sequence[str]) -> bool:
    """Tell whether a command starts Node.js, by giving it one that leaves a trace."""
    with tempfile.TemporaryDirectory() as folder:
        trace, node = Path(folder) / "started", Path(folder) / "node"
        node.write_text(f"#!/bin/sh\ntouch {trace}\nexit 1\n")
        node.chmod(0o755)
        env = {"PATH": f"{folder}:/usr/bin:/bin", "JSII_NODE": str(node), "HOME": folder}
        subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False)
        return trace.exists()


def main() -> None:
    """Print one line per command: seconds, multiple of `python -c pass`, whether Node.js starts."""
    dpd = [sys.executable, "-m", "dpd"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import pydantic, yaml, click": [sys.executable, "-c", "import pydantic, yaml, click"],
        "dpd check": [*dpd, "check"],
        "dpd check --env dev": [*dpd, "check", "--env", "dev"],
        "dpd plan": [*dpd, "plan"],
        "dpd plan --format json --explain": [*dpd, "plan", "--format", "json", "--explain"],
        "dpd manifests": [*dpd, "manifests"],
    }
    base = 0.0
    print(f"{'command':36}{'seconds':>9}{'ratio':>8}  Node.js")
    for name, command in commands.items():
        seconds = fastest_s(command)
        base = base or seconds
        print(f"{name:36}{seconds:9.3f}{seconds / base:8.1f}  {'yes' if starts_node(command) else 'no'}")
    if shutil.which("node") or (Path(sys.prefix) / "bin" / "node").exists():
        out = tempfile.mkdtemp()
        seconds = fastest_s([*dpd, "synth", "--out", out], runs=2)
        print(f"{'dpd synth (every environment)':36}{seconds:9.3f}{seconds / base:8.1f}  yes")
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
