"""A small system of stand-in processes: everything but the engines is real."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpd.local.bring_up import Deployed, bring_up
from dpd.local.home import EnvironmentFolder
from dpd.local.ports import choose_ports
from dpd.local.state import Desired, ProcessSpec
from dpd.local.system import LocalSystem

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
NAMES = ("prefill-0", "decode-0", "router")

BringUp = Callable[[Desired], Deployed]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[EnvironmentFolder]:
    """Return the folder of an environment; what runs there when the test ends is ended."""
    folder = EnvironmentFolder(tmp_path / "local" / "test")
    yield folder
    LocalSystem(folder).destroy()


@pytest.fixture
def desired() -> Desired:
    """Return a prefiller, a decoder and a router that are plain servers."""
    ports = choose_ports(NAMES, {}, {})
    return Desired(
        environment="test",
        model="tiny",
        engine="simulated",
        ports=ports,
        processes=tuple(
            ProcessSpec(
                name=name,
                role=name.partition("-")[0],
                command=(sys.executable, STAND_IN, str(port)),
                url=f"http://127.0.0.1:{port}",
                ready_timeout_s=60,
            )
            for name, port in ports.items()
        ),
    )


@pytest.fixture
def said() -> list[str]:
    """Return the lines of progress that `up` has shown."""
    return []


@pytest.fixture
def up(folder: EnvironmentFolder, said: list[str]) -> BringUp:
    """Return what brings a system up in `folder`."""
    return lambda desired: bring_up(folder, desired, said.append, list)
