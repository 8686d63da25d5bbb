"""The engines' own virtual environment: vLLM for the CPU, its torch and NIXL, apart from the small core."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dpd.finding import Finding, Severity
from dpd.local.bring_up import Say
from dpd.local.home import Home

# Older ones download a whole wheel to look at it in a dry run (pip 23.3, issue 12186).
_PIP = "pip==26.3"
_PROGRESS_INTERVAL_S = 5.0
_IMPORTS = "import torch, transformers, vllm, nixl._api"


def are_installed(home: Home, requirements: Path) -> bool:
    """Tell whether the engines are what the requirements say, made by this Python."""
    stamp = _stamp(home)
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted(requirements)


def install(home: Home, requirements: Path, say: Say, *, allow_cuda_torch: bool) -> list[Finding]:
    """Create the environment and install the pinned packages with pip, where they lack; 0.6 GB of downloads.

    pip, since it honours every index and folder that the user has told it of. Returns LOC103 or LOC104.
    """
    log = home.root / "engines-install.log"
    home.root.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    started = time.monotonic()

    def tell() -> None:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        fetched = sum(line.startswith("Collecting ") for line in lines)
        doing = "unpacking" if lines[-1].startswith("Installing collected packages") else "fetching"
        say(f"engines: {doing} {fetched} packages ({time.monotonic() - started:.0f} s)")

    for step in ((sys.executable, "-m", "venv", "--clear", str(home.engines)), _pip(home, _PIP)):
        if not _run(step, log):
            return [_failed(log)]
    findings = _torch(home, requirements, log, tell, allow_cuda=allow_cuda_torch)
    if findings:
        return findings
    # Every package is pinned; vLLM's own list would bring builds of torchvision that do not fit this torch.
    if not _run(_pip(home, "--no-deps", "-r", str(requirements)), log, tell):
        return [_failed(log)]
    say(f"engines: trying the imports ({time.monotonic() - started:.0f} s)")
    if not _run((_python(home), "-c", _IMPORTS), log):
        return [_failed(log)]
    _stamp(home).write_text(_wanted(requirements), encoding="utf-8")
    return []


def _torch(
    home: Home, requirements: Path, log: Path, tell: Callable[[], None], *, allow_cuda: bool
) -> list[Finding]:
    """Refuse where pip finds no CPU build: it would take that of PyPI, which needs CUDA; or install that one.

    Builds for the CPU have the local version `+cpu`, so nothing of the other is fetched to find out.
    """
    lines = requirements.read_text(encoding="utf-8").splitlines()
    pin = next(line for line in lines if line.startswith("torch=="))
    if _run(_pip(home, "--no-deps", "--dry-run", f"{pin}+cpu"), log):
        return []
    if "No matching distribution found" not in log.read_text(encoding="utf-8", errors="replace"):
        return [_failed(log)]
    if allow_cuda:
        return [] if _run(_pip(home, pin), log, tell) else [_failed(log)]
    return [
        Finding(
            "LOC103",
            Severity.ERROR,
            "torch",
            f"pip finds no CPU build of {pin}; the one on PyPI brings CUDA, several GB that engines on the "
            "CPU do not use",
            got=pin,
            allowed=f"{pin}+cpu",
            fix="point pip at PyTorch's CPU wheels with the environment variable "
            "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, or at a folder that holds one with "
            "PIP_FIND_LINKS; or take the build with CUDA with --allow-cuda-torch",
            source="https://pytorch.org/get-started/locally/",
        )
    ]


def _failed(log: Path) -> Finding:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Finding(
        "LOC104",
        Severity.ERROR,
        "engines",
        "the engines could not be installed: " + " / ".join(lines[-3:]),
        fix=f"see {log}; or use stand-ins that compute nothing with --engine simulated",
    )


def _wanted(requirements: Path) -> str:
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    return f"{sys.version_info.major}.{sys.version_info.minor} {digest}\n"


def _stamp(home: Home) -> Path:
    return home.engines / ".installed"


def _python(home: Home) -> str:
    return str(home.engines / "bin" / "python")


def _pip(home: Home, *arguments: str) -> tuple[str, ...]:
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    return (_python(home), "-m", "pip", "install", *quiet, *arguments)


def _run(command: tuple[str, ...], log: Path, tell: Callable[[], None] = lambda: None) -> bool:
    """Run a command whose output goes to the log; ``tell`` is called every few seconds until it ends."""
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    with process:
        while True:
            try:
                return process.wait(_PROGRESS_INTERVAL_S) == 0
            except subprocess.TimeoutExpired:
                tell()
