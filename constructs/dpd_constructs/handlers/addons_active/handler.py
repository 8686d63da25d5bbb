"""Wait until every EKS add-on is ACTIVE, and say what its health report says when one is not.

CloudFormation declares CoreDNS before any node exists, and which state it accepts there is not
documented. Once nodes are there, only ACTIVE will do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

# EKS does not leave these by itself (EKS API reference, Addon).
_LOST = frozenset({"CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "DELETING"})
# CloudFormation cuts a longer reason off.
_REASON_CHARACTERS = 1500


def on_event(
    event: Mapping[str, Any], _context: object, *, now: Callable[[], float] = time.time
) -> dict[str, Any]:
    """Start the wait: note when it began. Deleting needs nothing."""
    name = event["ResourceProperties"]["ClusterName"]
    return {"PhysicalResourceId": f"addons-active-{name}", "Data": {"StartedAt": str(int(now()))}}


def is_complete(
    event: Mapping[str, Any],
    _context: object,
    *,
    client: Any = None,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Tell whether all are ACTIVE; raises RuntimeError with the last states at the deadline.

    An add-on that has failed raises at once: it stays as it is.
    """
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    if client is None:
        client = _eks()
    properties = event["ResourceProperties"]
    cluster = properties["ClusterName"]
    addons = [
        client.describe_addon(clusterName=cluster, addonName=name)["addon"] for name in properties["Addons"]
    ]
    waiting = [addon for addon in addons if addon["status"] != "ACTIVE"]
    if not waiting:
        return {"IsComplete": True}
    waited_s = int(now()) - int(event["Data"]["StartedAt"])
    lost = any(addon["status"] in _LOST for addon in waiting)
    if lost or waited_s >= int(properties["TimeoutSeconds"]):
        text = f"add-ons of cluster {cluster} are not active after {waited_s} s. "
        raise RuntimeError((text + ". ".join(map(_text, waiting)))[:_REASON_CHARACTERS])
    return {"IsComplete": False}


def _eks() -> Any:
    import boto3  # pyright: ignore[reportMissingTypeStubs] - part of the Lambda runtime

    return cast("Any", boto3).client("eks")


def _text(addon: Mapping[str, Any]) -> str:
    issues = addon.get("health", {}).get("issues", [])
    said = "; ".join(f"{issue.get('code', 'unknown')}: {issue.get('message', '')}" for issue in issues)
    line = f"{addon['addonName']} {addon['addonVersion']} is {addon['status']}"
    return f"{line} ({said})" if said else line
