"""The worker as a process."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest


@contextmanager
def process(*options):
    """Start a worker; its first line names its URL."""
    command = [sys.executable, "-m", "dpd.simulator", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running, running.stdout.readline().split()[-1]
        finally:
            running.kill()


def post(url, **body):
    data = json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=30) as response:
        return json.load(response)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--role", "prefill", "--transport", "nixl"),
        ("--role", "decode", "--transport", "lmcache", "--tensor-parallel", "2"),
    ],
)
def test_it_serves_until_sigterm(options):
    with process("--model", "small", *options) as (running, url):
        body = post(url + "/v1/completions", prompt="hello", max_tokens=2)
        assert body["model"] == "small"
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert running.stderr.read() == ""


def test_a_fault_can_end_it():
    with process("--allow-faults") as (running, url):
        post(url + "/simulator/faults", kind="die_mid_prefill", whole_worker=True)
        with pytest.raises(OSError, match=r"(?i)reset|closed"):
            post(url + "/v1/completions", prompt="hello", max_tokens=2)
        assert running.wait(30) == 1


def refused(*options):
    command = [sys.executable, "-m", "dpd.simulator", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_every_wrong_option_is_named():
    text = refused("--itl-ms", "fast", "--role", "cook")
    assert "--itl-ms: " in text
    assert "--role: " in text


def test_ports_that_do_not_fit_the_ranks_are_refused():
    assert "one port for each of 2 ranks" in refused("--tensor-parallel", "2", "--init-ports", "7300")


def test_a_taken_port_is_named():
    with process() as (_, url):
        text = refused("--port", url.rsplit(":", 1)[1])
    assert "cannot listen" in text
    assert "Traceback" not in text
