"""What all waits have in common: the start, the deadline, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dpd_constructs.handlers.kubernetes_waits import handler

Poll = Callable[..., dict[str, Any]]
DEVICES = {"Check": "devices", "Groups": [{"Name": "decode", "Label": "role", "Count": "1", "Devices": {}}]}


def refused(_: str, __: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    raise OSError("401 Unauthorized")


def test_start_notes_the_time_under_one_name() -> None:
    event = {"ResourceProperties": {"ClusterName": "dpd-dev", "Check": "webhook"}}

    assert handler.on_event(event, None, now=lambda: 7.9) == {
        "PhysicalResourceId": "webhook-dpd-dev",
        "Data": {"StartedAt": "7"},
    }


def test_delete_is_complete_without_a_call() -> None:
    def connect(_: str) -> Any:
        raise AssertionError

    event = {"RequestType": "Delete", "ResourceProperties": {"ClusterName": "dpd-dev", **DEVICES}}
    assert handler.is_complete(event, None, connect=connect) == {"IsComplete": True}


def test_a_refusal_is_waited_out_and_then_told(poll: Poll) -> None:
    assert poll(refused, **DEVICES) == {"IsComplete": False}
    with pytest.raises(RuntimeError) as raised:
        poll(refused, waited_s=900, **DEVICES)

    assert str(raised.value) == (
        "devices of cluster dpd-dev: not ready after 900 s. the API server says 401 Unauthorized"
    )


def test_an_answer_fits_into_a_cloudformation_reason(poll: Poll) -> None:
    def refuse(_: str, __: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        raise OSError("x" * 5000)

    with pytest.raises(RuntimeError) as raised:
        poll(refuse, waited_s=900, **DEVICES)

    assert len(str(raised.value)) <= 1500
