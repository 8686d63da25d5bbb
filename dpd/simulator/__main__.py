"""``python -m dpd.simulator --role decode --port 8102``: run one simulated worker until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import zmq
from pydantic.fields import FieldInfo

from dpd.closed_model import validate
from dpd.simulator.config import SimulatorConfig
from dpd.simulator.worker import SimulatedWorker
from dpd.yaml_file import Path_

_USAGE = 2


def main() -> int:
    """Return 0 after SIGTERM or SIGINT, 1 where a fault killed the worker, 2 where an option is wrong."""
    arguments = vars(_parser().parse_args())
    config, findings = validate(SimulatorConfig, arguments, _locate)
    for finding in findings:
        print(finding.text(), file=sys.stderr)  # noqa: T201
    if config is None:
        return _USAGE
    factory = None
    with contextlib.suppress(ImportError):
        factory = importlib.import_module("uvloop").new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(_serve(config))
    except (OSError, zmq.ZMQError) as error:
        print(f"cannot listen: {error}; choose other ports", file=sys.stderr)  # noqa: T201
        return _USAGE


async def _serve(config: SimulatorConfig) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with SimulatedWorker(config) as worker:
        print(f"{config.role} {config.model} (simulated) at {worker.url}", flush=True)  # noqa: T201
        waits = {asyncio.create_task(event.wait()) for event in (stop, worker.ended)}
        _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        return 0 if stop.is_set() else 1


def _parser() -> argparse.ArgumentParser:
    """Return a parser with one option per field of SimulatorConfig."""
    parser = argparse.ArgumentParser(
        prog="dpd.simulator",
        description="Simulate one vLLM worker with a KV connector. It computes nothing, and its times are"
        " those that the options give it.",
        argument_default=argparse.SUPPRESS,
    )
    for name, field in SimulatorConfig.model_fields.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **_option(field))
    return parser


def _option(field: FieldInfo) -> Mapping[str, Any]:
    text = (field.description or "").replace("%", "%%").replace("`", "'")
    if field.annotation is bool:
        return {"action": argparse.BooleanOptionalAction, "help": text}
    if get_origin(field.annotation) is tuple:
        return {"type": _ports, "metavar": "PORT,PORT", "help": text}
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return {"metavar": "|".join(choices) or "VALUE", "help": f"{text} [{field.default}]"}


def _ports(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _locate(path: Path_) -> tuple[str, int | None, str]:
    return "", None, f"--{path[0]}".replace("_", "-") if path else ""


if __name__ == "__main__":
    sys.exit(main())
