"""Start what is measured: simulated workers, this router, and the Rust one in an environment of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from streams import Job, Result

ROOT = Path(__file__).resolve().parents[2]
RUST = "vllm-router==0.1.17"
"""The Rust router of the vLLM project, from PyPI."""
STREAMS = 512
"""More than any load has: what waits for a slot would be measured as a cost."""
_WAIT_S = 60


@dataclass(frozen=True)
class Server:
    """Name a process that listens on a port of 127.0.0.1."""

    port: int
    pid: int


class Processes:
    """Start servers, which write to files in ``folder``, and end them with the stack."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder

    def worker(self, role: str, itl_ms: float) -> Server:
        """Start a simulated worker that computes prompts and moves KV caches in no time."""
        options = ["--prefill-tokens-per-s=1e9", "--transfer-ms=0", f"--itl-ms={itl_ms}"]
        command = [sys.executable, "-m", "dpd.simulator", f"--role={role}", f"--max-num-seqs={STREAMS}"]
        return self._start(role, lambda port: [*command, *options, f"--port={port}"])

    def router(self, prefill: Server, decode: Server, **routing: object) -> Server:
        """Start this router; ``routing`` is that section of its configuration."""
        config: dict[str, Any] = {
            "routing": routing,
            "workers": {"prefill": [_url(prefill)], "decode": [_url(decode)]},
            "limits": {"prefill_concurrency": STREAMS, "decode_concurrency": STREAMS},
        }

        def command(port: int) -> list[str]:
            file = self._folder / f"router-{port}.yaml"
            listen = {"host": "127.0.0.1", "port": port}
            file.write_text(yaml.safe_dump({**config, "listen": listen}), encoding="utf-8")
            return [sys.executable, "-m", "dpd.router", f"--config={file}"]

        return self._start("router", command)

    def rust_router(self, workers: Sequence[str]) -> Server:
        """Start the Rust router with the options that name its workers."""
        program = _rust_program()

        def command(port: int) -> list[str]:
            address = ["--host=127.0.0.1", f"--port={port}", f"--prometheus-port={_free_port()}"]
            return [str(program), *workers, "--policy=round_robin", *address]

        return self._start("rust", command)

    def _start(self, name: str, command: Callable[[int], Sequence[str]]) -> Server:
        port = _free_port()
        log = self._stack.enter_context((self._folder / f"{name}-{port}.log").open("wb"))
        process = subprocess.Popen(command(port), cwd=ROOT, stdout=log, stderr=log)
        self._stack.callback(_end, process)
        deadline = time.monotonic() + _WAIT_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{name} does not start:\n{Path(log.name).read_text()[-2000:]}")
            time.sleep(0.1)
        return Server(port, process.pid)


def rust_disaggregated(prefill: Server, decode: Server) -> list[str]:
    """Return the Rust router's options for hand-over with NIXL."""
    legs = ["--prefill", _url(prefill), "--decode", _url(decode)]
    return ["--vllm-pd-disaggregation", *legs, "--kv-connector", "nixl"]


def rust_plain(decode: Server) -> list[str]:
    """Return the Rust router's options for workers that prefill themselves."""
    return ["--worker-urls", _url(decode)]


def load(job: Job) -> Result:
    """Run one load in a process of its own."""
    program = Path(__file__).with_name("streams.py")
    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(asdict(job)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Result(**json.loads(done.stdout))


def metric(server: Server, name: str) -> float:
    """Return the sum of a worker's metric over its labels."""
    with urllib.request.urlopen(_url(server) + "/metrics", timeout=_WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + "{", name + " ")))


def _rust_program() -> Path:
    """Install the Rust router where it is missing."""
    folder = ROOT / ".dpd" / "benchmarks" / RUST.replace("==", "-")
    program = folder / "bin" / "vllm-router"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", RUST], check=True)
    return program


def _url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _answers(port: int) -> bool:
    """Tell whether a server answers a model list: that of a router comes from a worker that it found."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=_WAIT_S) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
