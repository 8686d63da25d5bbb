"""Ports are chosen once, and kept."""

from __future__ import annotations

import socket

import pytest

from dpd.local import ports
from dpd.local.ports import NoFreePort, choose_ports, is_free


def test_a_kept_port_stays_although_it_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        assert choose_ports(["router"], {"router": port}, {}) == {"router": port}


def test_a_fixed_port_wins_over_a_kept_one() -> None:
    assert choose_ports(["router"], {"router": 8100}, {"router": 9123}) == {"router": 9123}


def test_ports_in_use_or_given_away_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: port != 8100)
    assert choose_ports(["a", "b", "c"], {"b": 8101}, {}) == {"a": 8102, "b": 8101, "c": 8103}


def test_a_port_that_a_server_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_a_full_range_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _: False)
    with pytest.raises(NoFreePort, match="8100 to 8999"):
        choose_ports(["router"], {}, {})
