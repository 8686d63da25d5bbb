"""Choose ports on this machine once, and keep them."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

# Below the range from which Linux takes ports of outgoing connections (32768 and up).
_RANGE = range(8100, 9000)


class NoFreePort(Exception):
    """Say that every port of the range is in use."""


def choose_ports(uses: Iterable[str], kept: Mapping[str, int], fixed: Mapping[str, int]) -> dict[str, int]:
    """Return a port for each use: the fixed one, else the kept one, else one that is free now."""
    ports: dict[str, int] = {}
    for use in uses:
        port = fixed.get(use) or kept.get(use)
        ports[use] = port or _free({*ports.values(), *kept.values(), *fixed.values()})
    return ports


def is_free(port: int) -> bool:
    """Tell whether a server could listen on the port of 127.0.0.1 now."""
    with socket.socket() as listener:
        # As servers do: connections that linger after a server has ended do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free(taken: set[int]) -> int:
    for port in _RANGE:
        if port not in taken and is_free(port):
            return port
    raise NoFreePort(f"no port from {_RANGE.start} to {_RANGE.stop - 1} of 127.0.0.1 is free")
