"""Wait until the nodes of each GPU group offer every GPU and EFA device that their type has.

A node can be Ready while a device plugin is missing, crash-loops or counts wrongly (reports P-23 and
P-29); pods then stay Pending, or run without EFA and fall back to TCP. The Kubernetes API itself is asked,
with a token that is signed here: neither kubectl nor the AWS CLI is needed for one request.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, cast

# Where EKS finds the cluster's name in a signed request, and how it names such tokens
# (kubernetes-sigs/aws-iam-authenticator, README).
_CLUSTER_HEADER = "x-k8s-aws-id"
_TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - the prefix of every token, no secret
_TOKEN_S = 60
# Deep health checks take hours, longer than CloudFormation waits, and whether every plugin tolerates their
# taint is not documented; such a node counts as complete, as it counts as arrived (page
# sagemaker-hyperpod-eks-resiliency-node-labels).
_HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
_IN_CHECKS = "Unschedulable"
_REQUEST_S = 20
# CloudFormation cuts a longer reason off.
_REASON_CHARACTERS = 1500

Get = Callable[[str], Mapping[str, Any]]


def on_event(
    event: Mapping[str, Any], _context: object, *, now: Callable[[], float] = time.time
) -> dict[str, Any]:
    """Start the wait: note when it began. Deleting needs nothing."""
    name = event["ResourceProperties"]["ClusterName"]
    return {"PhysicalResourceId": f"devices-ready-{name}", "Data": {"StartedAt": str(int(now()))}}


def is_complete(
    event: Mapping[str, Any],
    _context: object,
    *,
    connect: Callable[[str], Get] | None = None,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Tell whether all devices are there; raises RuntimeError with the last state at the deadline.

    An API server that does not answer, or does not know us yet, counts as not ready: access entries
    take a while to spread. Groups of no node ask for nothing.
    """
    properties = event["ResourceProperties"]
    groups = [group for group in properties["Groups"] if int(group["Count"])]
    if event["RequestType"] == "Delete" or not groups:
        return {"IsComplete": True}
    try:
        get = (connect or reader)(properties["ClusterName"])
        waiting = [text for text in (_missing(get, group) for group in groups) if text]
    except (OSError, ValueError) as error:
        waiting = [f"the API server says {_answer(error)}"]
    if not waiting:
        return {"IsComplete": True}
    waited_s = int(now()) - int(event["Data"]["StartedAt"])
    if waited_s >= int(properties["TimeoutSeconds"]):
        text = f"devices of cluster {properties['ClusterName']} are not there after {waited_s} s. "
        raise RuntimeError((text + ". ".join(waiting))[:_REASON_CHARACTERS])
    return {"IsComplete": False}


def _missing(get: Get, group: Mapping[str, Any]) -> str:
    """Say what a group lacks; empty where nothing is missing."""
    selector = urllib.parse.quote(f"{group['Label']}={group['Name']}")
    nodes = get(f"/api/v1/nodes?labelSelector={selector}")["items"]
    wanted = {name: int(count) for name, count in group["Devices"].items()}
    states = [_state(node, wanted) for node in nodes]
    complete = sum(1 for _, lacking in states if not lacking)
    if complete >= int(group["Count"]):
        return ""
    seen = "; ".join(f"{name} {', '.join(lacking)}" for name, lacking in states if lacking)
    line = f"group {group['Name']} has {complete} of {group['Count']} nodes with {_counts(wanted)}"
    return f"{line}: {seen}" if seen else f"{line}, and {len(nodes)} with its label"


def _state(node: Mapping[str, Any], wanted: Mapping[str, int]) -> tuple[str, list[str]]:
    """Return a node's name and what it lacks."""
    name, status = node["metadata"]["name"], node["status"]
    if node["metadata"].get("labels", {}).get(_HEALTH_LABEL) == _IN_CHECKS:
        return name, []
    ready = {row["type"]: row for row in status.get("conditions", [])}.get("Ready", {})
    lacking = [] if ready.get("status") == "True" else [f"is not Ready ({ready.get('reason', 'unknown')})"]
    allocatable = status.get("allocatable", {})
    for device, count in wanted.items():
        offered = allocatable.get(device, "0")
        if not offered.isdigit() or int(offered) != count:
            lacking.append(f"offers {offered} {device}")
    return name, lacking


def _counts(wanted: Mapping[str, int]) -> str:
    return " and ".join(f"{count} {name}" for name, count in wanted.items())


def _answer(error: Exception) -> str:
    """Return what the server said about a refused request: HTTPError's own text leaves that out."""
    if not isinstance(error, urllib.error.HTTPError):
        return str(error)
    try:
        said = json.loads(error.read()).get("message", "")
    except (ValueError, AttributeError):
        said = ""
    return f"{error.code} {said or error.reason}"


def reader(cluster_name: str, *, session: Any = None) -> Get:
    """Return a function that reads a path of the cluster's API as JSON, or raises OSError or ValueError."""
    if session is None:
        import boto3  # pyright: ignore[reportMissingTypeStubs] - part of the Lambda runtime

        session = cast("Any", boto3).session.Session()
    cluster = session.client("eks").describe_cluster(name=cluster_name)["cluster"]
    url, authority = cluster["endpoint"], base64.b64decode(cluster["certificateAuthority"]["data"])
    if not url.startswith("https://"):
        raise ValueError(f"the cluster's endpoint {url} is not https")
    trust = ssl.create_default_context(cadata=authority.decode())
    headers = {"Authorization": f"Bearer {_token(cluster_name, session)}"}

    def get(path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(url + path, headers=headers)  # noqa: S310 - https, see above
        with urllib.request.urlopen(request, timeout=_REQUEST_S, context=trust) as answer:  # noqa: S310
            return cast("Mapping[str, Any]", json.load(answer))

    return get


def _token(cluster_name: str, session: Any) -> str:
    """Sign a question to STS that EKS asks in our name; its answer tells EKS who we are."""
    from botocore.signers import RequestSigner

    client, region = session.client("sts"), session.region_name
    signer = cast("Any", RequestSigner)(
        client.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events
    )
    request = {
        "method": "GET",
        "url": f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {_CLUSTER_HEADER: cluster_name},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=_TOKEN_S, operation_name="")
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
