"""``python -m dpd.router --config FILE``: run one router until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import signal
import sys
from pathlib import Path

import zmq

from dpd.router.config import RouterConfig, read_config
from dpd.router.discovery import NotInCluster
from dpd.router.logs import log_as_json
from dpd.router.router import Router

_USAGE = 2
_GC_THRESHOLD = 20_000
"""Objects made and not freed until the youngest are collected; Python's own is 700."""


def main() -> int:
    """Return 0 after a drain, 2 where the configuration or an address is at fault."""
    parser = argparse.ArgumentParser(prog="dpd.router", description="Route requests to prefill and decode.")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="YAML; docs/router.md")
    parser.add_argument("--check", action="store_true", help="read the configuration, and end")
    arguments = parser.parse_args()
    config, findings = read_config(arguments.config)
    for finding in findings:
        print(finding.text(), file=sys.stderr)  # noqa: T201
    if config is None:
        return _USAGE
    if arguments.check:
        return 0
    log_as_json(config.telemetry.log_level)
    try:
        _run(config)
    except (OSError, zmq.ZMQError) as error:
        key = "lmcache.notify_host" if isinstance(error, zmq.ZMQError) else "listen"
        value = config.lmcache.notify_host if config.lmcache and key != "listen" else config.listen.host
        print(  # noqa: T201
            f"{arguments.config}: {key}: cannot listen on {value!r}: {error}; choose an address of this"
            " machine and a free port",
            file=sys.stderr,
        )
        return _USAGE
    except NotInCluster as error:
        print(f"{arguments.config}: workers.kubernetes: {error}", file=sys.stderr)  # noqa: T201
        return _USAGE
    except ImportError as error:
        print(  # noqa: T201
            f"{arguments.config}: telemetry.otlp_endpoint: {error}; install opentelemetry-sdk and"
            " opentelemetry-exporter-otlp-proto-http, or remove the key",
            file=sys.stderr,
        )
        return _USAGE
    return 0


def _run(config: RouterConfig) -> None:
    # uvloop saves a seventh of the CPU per chunk (docs/router.md); nothing depends on it.
    factory = None
    with contextlib.suppress(ImportError):
        factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(config))


async def _serve(config: RouterConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Router(config) as router:
        # What is there now stays. Requests leave few cycles, and looking for them as often as Python does
        # takes 4 % of the time (benchmarks/router).
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        await stop.wait()
        await router.drain()


if __name__ == "__main__":
    sys.exit(main())
