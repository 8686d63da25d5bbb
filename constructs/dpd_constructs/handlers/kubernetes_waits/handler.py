"""Wait for what a cluster's Kubernetes API alone can tell, and say what is missing at the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from . import api, definition, devices, webhook

# CloudFormation cuts a longer reason off.
_REASON_CHARACTERS = 1500

_CHECKS: Mapping[str, Callable[[api.Api, Mapping[str, Any]], list[str]]] = {
    "definition": definition.missing,
    "devices": devices.missing,
    "webhook": webhook.missing,
}


def on_event(
    event: Mapping[str, Any], _context: object, *, now: Callable[[], float] = time.time
) -> dict[str, Any]:
    """Start the wait: note when it began. Deleting needs nothing."""
    properties = event["ResourceProperties"]
    return {
        "PhysicalResourceId": f"{properties['Check']}-{properties['ClusterName']}",
        "Data": {"StartedAt": str(int(now()))},
    }


def is_complete(
    event: Mapping[str, Any],
    _context: object,
    *,
    connect: Callable[[str], api.Api] = api.connect,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Tell whether nothing is missing; raises RuntimeError with the last state at the deadline.

    An API server that does not answer, or does not know us yet, counts as not ready: access entries
    take a while to spread.
    """
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    cluster, check = properties["ClusterName"], properties["Check"]
    try:
        waiting = _CHECKS[check](connect(cluster), properties)
    except (OSError, ValueError) as error:
        waiting = [f"the API server says {error}"]
    if not waiting:
        return {"IsComplete": True}
    waited_s = int(now()) - int(event["Data"]["StartedAt"])
    if waited_s >= int(properties["TimeoutSeconds"]):
        text = f"{check} of cluster {cluster}: not ready after {waited_s} s. "
        raise RuntimeError((text + ". ".join(waiting))[:_REASON_CHARACTERS])
    return {"IsComplete": False}
