"""The drills: each brings one fault about, at the moment at which it hurts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from dpd.local.state import ProcessRole
from dpd.ops.drill.scene import Scene


@dataclass(frozen=True, slots=True)
class Drill:
    """Say what is done to the first process of a role.

    ``strike`` gets its name, and returns once the fault is over, or its process is about to be started again.
    It raises Missed, NotRecovered or NoAnswer. Where it ``breaks`` requests, the router must see one fail.
    """

    name: str
    does: str
    role: ProcessRole
    strike: Callable[[Scene, str], Awaitable[None]]
    breaks: bool = True


async def _kill_in_hand_over(scene: Scene, name: str) -> None:
    await scene.request_at(name)
    await scene.end(scene.system.kill, name)


async def _kill_in_stream(scene: Scene, name: str) -> None:
    await scene.load.stream_runs()
    await scene.end(scene.system.kill, name)


async def _restart(scene: Scene, name: str) -> None:
    await scene.load.stream_runs()
    await scene.end(scene.system.restart, name)


async def _stop(scene: Scene, name: str) -> None:
    await scene.request_at(name)
    scene.strike(scene.system.pause, name)
    try:
        await scene.taken_out(name)
    finally:
        scene.strike(scene.system.resume, name)


DRILLS: Final = (
    Drill("prefiller-killed", "SIGKILL to a prefiller during a hand-over", "prefill", _kill_in_hand_over),
    Drill("prefiller-restarted", "SIGTERM to a prefiller under load", "prefill", _restart, breaks=False),
    Drill("prefiller-stopped", "SIGSTOP to a prefiller until the router notices", "prefill", _stop),
    Drill("decoder-killed", "SIGKILL to a decoder in the middle of a stream", "decode", _kill_in_stream),
    Drill("decoder-stopped", "SIGSTOP to a decoder until the router notices", "decode", _stop),
    Drill("router-restarted", "SIGTERM to the router under load", "router", _restart, breaks=False),
)
