"""What only processes show: signals to the router, and a worker that the kernel stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

WAIT_S = 60
BODY = {"prompt": "hello", "temperature": 0, "ignore_eos": True}


class Processes:
    """Start simulators and a router, on loopback."""

    def __init__(self, stack, folder):
        self.stack = stack
        self.folder = folder

    def start(self, *command):
        process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.stack.callback(self.end, process)
        return process

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.communicate()

    def worker(self, **options):
        """Return a decoder's process and URL."""
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        process = self.start("dpd.simulator", "--role=decode", *flags)
        return process, process.stdout.readline().split()[-1].decode()

    def router(self, decoders, **config):
        """Return a ready router's process and URL."""
        config = {
            "listen": {"host": "127.0.0.1", "port": 0},
            "workers": {"decode": decoders, **config.pop("workers", {})},
            **config,
        }
        file = self.folder / "router.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        process = self.start("dpd.router", f"--config={file}")
        line = next(line for line in map(json.loads, process.stderr) if line["message"] == "listening")
        url = f"http://127.0.0.1:{line['port']}"
        wait_for(lambda: status(url + "/ready") == 200)
        return process, url


@pytest.fixture
def processes(tmp_path):
    """Return a maker of processes that end with the test."""
    with contextlib.ExitStack() as stack:
        yield Processes(stack, tmp_path)


def wait_for(condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask(url, **fields):
    """Return status, headers and body."""
    data = json.dumps(BODY | fields).encode()
    try:
        with urllib.request.urlopen(f"{url}/v1/completions", data, timeout=WAIT_S) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as response:
            return response.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def in_flight(url):
    with urllib.request.urlopen(url + "/debug/workers", timeout=WAIT_S) as response:
        return json.load(response)["in_flight"]


@pytest.mark.parametrize("collector", [{}, {"otlp_endpoint": "http://127.0.0.1:9"}])
def test_sigterm_lets_a_stream_end_and_takes_no_more(processes, collector):
    _, decoder = processes.worker(itl_ms=20)
    router, url = processes.router([decoder], telemetry=collector, limits={"drain_timeout_s": 20})
    with ThreadPoolExecutor() as pool:
        stream = pool.submit(ask, url, stream=True, max_tokens=100)
        wait_for(lambda: in_flight(url) == 1)
        router.send_signal(signal.SIGTERM)
        wait_for(lambda: status(url + "/ready") == 503)
        code, headers, body = ask(url)
        assert (code, json.loads(body)["error"]["code"]) == (503, "draining")
        assert headers["Retry-After"] == "1"
        code, _, body = stream.result(WAIT_S)
    assert (code, body.count(b"data: {")) == (200, 100)
    assert body.endswith(b"data: [DONE]\n\n")
    assert router.wait(WAIT_S) == 0


@pytest.mark.parametrize("stream", [False, True])
def test_who_is_not_ready_in_time_is_told_so(processes, stream):
    _, decoder = processes.worker(itl_ms=20)
    router, url = processes.router([decoder], limits={"drain_timeout_s": 0.3})
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask, url, stream=stream, max_tokens=10_000)
        wait_for(lambda: in_flight(url) == 1)
        time.sleep(0.1)
        router.send_signal(signal.SIGTERM)
        code, _, body = asked.result(WAIT_S)
    assert code == (200 if stream else 503)
    assert json.loads(body.split(b"data: ")[-1])["error"]["code"] == "draining"
    assert router.wait(WAIT_S) == 0


def test_a_stopped_worker_is_found_out_and_its_requests_go_to_another(processes):
    (stopped, first), (_, second) = sorted((processes.worker() for _ in range(2)), key=lambda one: one[1])
    checks = {"health_interval_s": 0.1, "health_timeout_s": 0.3, "failures_to_eject": 2}
    _, url = processes.router([first, second], workers=checks)
    right = ask(second, max_tokens=8)[2]
    os.kill(stopped.pid, signal.SIGSTOP)
    code, headers, body = ask(url, max_tokens=8)
    assert code == 200
    assert headers["x-dpd-decoder"] == second.removeprefix("http://")
    assert json.loads(body)["choices"] == json.loads(right)["choices"]
    os.kill(stopped.pid, signal.SIGCONT)
    wait_for(lambda: usable(url) == 2)


def usable(url):
    with urllib.request.urlopen(url + "/debug/workers", timeout=WAIT_S) as response:
        return sum(row["usable"] for row in json.load(response)["workers"])


def test_a_taken_address_is_said_without_a_traceback(processes, tmp_path):
    _, decoder = processes.worker()
    port = int(decoder.rsplit(":", 1)[1])
    file = tmp_path / "taken.yaml"
    file.write_text(
        yaml.safe_dump({"listen": {"host": "127.0.0.1", "port": port}, "workers": {"decode": [decoder]}}),
        encoding="utf-8",
    )
    router = processes.start("dpd.router", f"--config={file}")
    _, errors = router.communicate(timeout=WAIT_S)
    assert router.returncode == 2
    assert b"cannot listen" in errors
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    ],
)
def test_what_is_not_http_leaves_no_traceback_in_the_log(processes, sent):
    _, decoder = processes.worker()
    router, url = processes.router([decoder])
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), WAIT_S) as client:
        client.sendall(sent)
        answer = client.recv(2**16)
    assert b" 400 " in answer.split(b"\r\n")[0]
    router.terminate()
    _, errors = router.communicate(timeout=WAIT_S)
    assert b"aiohttp.server" in errors
    assert b"Traceback" not in errors
