"""What a deploy does before anything starts, and in which order."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.local import deploy as module
from dpd.local.home import Home
from dpd.local.ports import choose_ports
from dpd.local.state import Desired
from dpd.spec.local_deployment import LocalDeployment


@pytest.fixture
def planned(
    monkeypatch: pytest.MonkeyPatch, deployment: LocalDeployment, facts: Facts, tmp_path: Path
) -> Callable[[Callable[[], None]], Desired]:
    """Return a function that deploys until processes would start, with a stand-in for the installation."""
    monkeypatch.setattr(module.host, "platform_findings", list)
    monkeypatch.setattr(module.host, "memory_findings", lambda *_, **__: [])

    def plan(install: Callable[[], None]) -> Desired:
        started: list[Desired] = []

        def bring_up(_: Any, desired: Desired, *__: Any) -> None:
            started.append(desired)

        monkeypatch.setattr(module, "_provide", lambda *_, **__: install())
        monkeypatch.setattr(module, "bring_up", bring_up)
        module.deploy(deployment, "vllm", facts, Home(tmp_path), print, allow_cuda_torch=False)
        return started[0]

    return plan


def test_a_port_that_is_taken_during_the_installation_is_not_chosen(
    planned: Callable[[Callable[[], None]], Desired],
) -> None:
    port = choose_ports(["router"], {}, {})["router"]
    with ExitStack() as stack:

        def take_it() -> None:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))

        assert planned(take_it).ports["router"] != port
