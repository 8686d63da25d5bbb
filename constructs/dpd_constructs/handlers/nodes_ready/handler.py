"""Wait until every HyperPod instance group has its nodes, and say what is missing when it has not.

Continuous provisioning reports a cluster as InService before any node exists (developer guide, page
sagemaker-hyperpod-scaling-eks), so CloudFormation alone would install add-ons onto nothing. The
provider framework's own time-out message names neither group nor reason: this handler keeps the
deadline and raises first, with the last state it saw.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

# A node that runs its deep health checks exists and has joined; the checks take minutes to hours
# (page sagemaker-hyperpod-eks-resiliency-deep-health-checks), longer than CloudFormation waits.
_ARRIVED = frozenset({"Running", "DeepHealthCheckInProgress"})
_LOST_CLUSTER = frozenset({"Failed", "RollingBack", "Deleting"})
# CloudFormation cuts a longer reason off.
_REASON_CHARACTERS = 1500


@dataclass(frozen=True)
class Group:
    """Hold what one instance group wants, and what is there."""

    name: str
    instance_types: tuple[str, ...]
    wanted: int
    status: str
    nodes: tuple[Mapping[str, Any], ...]

    @property
    def arrived(self) -> int:
        """Return the number of nodes of a wanted type that have joined."""
        return sum(1 for node in self.nodes if node["InstanceStatus"]["Status"] in _ARRIVED)

    @property
    def failed(self) -> bool:
        """Tell whether the group, or a node of it, has failed."""
        return self.status == "Failed" or any(
            node["InstanceStatus"]["Status"] == "Failure" for node in self.nodes
        )

    def text(self) -> str:
        """Describe the group in one line."""
        states = Counter(node["InstanceStatus"]["Status"] for node in self.nodes)
        seen = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "no node"
        messages = dict.fromkeys(node["InstanceStatus"].get("Message", "") for node in self.nodes)
        said = "; ".join(message for message in messages if message)
        types = " or ".join(self.instance_types)
        line = f"group {self.name} ({self.status}) wants {self.wanted} {types}, sees {seen}"
        return f"{line}: {said}" if said else line


def on_event(
    event: Mapping[str, Any], _context: object, *, now: Callable[[], float] = time.time
) -> dict[str, Any]:
    """Start the wait: note when it began. Deleting needs nothing."""
    name = event["ResourceProperties"]["ClusterArn"].rpartition("/")[2]
    return {"PhysicalResourceId": f"nodes-ready-{name}", "Data": {"StartedAt": str(int(now()))}}


def is_complete(
    event: Mapping[str, Any],
    _context: object,
    *,
    client: Any = None,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Tell whether all nodes have arrived; raises RuntimeError with the last state at the deadline.

    A lost cluster raises at once. A failed node raises only after ``FailureGraceSeconds``: until then
    HyperPod may still replace it.
    """
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    if client is None:
        client = _sagemaker()
    properties = event["ResourceProperties"]
    cluster = client.describe_cluster(ClusterName=properties["ClusterArn"])
    groups = _groups(properties, cluster, _nodes(client, properties["ClusterArn"]))
    waiting = [group for group in groups if group.arrived < group.wanted]
    lost = cluster["ClusterStatus"] in _LOST_CLUSTER
    if not waiting and not lost:
        return {"IsComplete": True, "Data": {group.name: str(group.arrived) for group in groups}}
    waited_s = int(now()) - int(event["Data"]["StartedAt"])
    failed = waited_s >= int(properties["FailureGraceSeconds"]) and any(group.failed for group in waiting)
    if lost or failed or waited_s >= int(properties["TimeoutSeconds"]):
        raise RuntimeError(_reason(client, cluster, waiting, waited_s))
    return {"IsComplete": False}


def _sagemaker() -> Any:
    import boto3  # pyright: ignore[reportMissingTypeStubs] - part of the Lambda runtime

    return cast("Any", boto3).client("sagemaker")


def _nodes(client: Any, cluster_arn: str) -> list[Mapping[str, Any]]:
    nodes: list[Mapping[str, Any]] = []
    request = {"ClusterName": cluster_arn}
    while True:
        page = client.list_cluster_nodes(**request)
        nodes += page["ClusterNodeSummaries"]
        if not page.get("NextToken"):
            return nodes
        request = {"ClusterName": cluster_arn, "NextToken": page["NextToken"]}


def _groups(
    properties: Mapping[str, Any], cluster: Mapping[str, Any], nodes: list[Mapping[str, Any]]
) -> list[Group]:
    status = {row["InstanceGroupName"]: row.get("Status", "unknown") for row in cluster["InstanceGroups"]}
    return [
        Group(
            name=wanted["Name"],
            instance_types=tuple(wanted["InstanceTypes"]),
            wanted=int(wanted["Count"]),
            status=status.get(wanted["Name"], "absent"),
            # After a change of instance type the old nodes are still listed for a while.
            nodes=tuple(
                node
                for node in nodes
                if node["InstanceGroupName"] == wanted["Name"]
                and node["InstanceType"] in wanted["InstanceTypes"]
            ),
        )
        for wanted in properties["Groups"]
    ]


def _reason(client: Any, cluster: Mapping[str, Any], waiting: list[Group], waited_s: int) -> str:
    parts = [
        f"HyperPod cluster {cluster['ClusterName']} ({cluster['ClusterStatus']})"
        f" is not ready after {waited_s} s"
    ]
    if cluster.get("FailureMessage"):
        parts.append(cluster["FailureMessage"])
    parts += [group.text() for group in waiting]
    parts += _events(client, cluster["ClusterArn"], {group.name for group in waiting})
    return ". ".join(parts)[:_REASON_CHARACTERS]


def _events(client: Any, cluster_arn: str, groups: set[str]) -> list[str]:
    """Return the latest warnings about the groups: a node without capacity appears only here."""
    if not hasattr(client, "list_cluster_events"):
        return []  # the SDK of this Lambda runtime is older than the call
    try:
        page = client.list_cluster_events(
            ClusterName=cluster_arn, SortBy="EventTime", SortOrder="Descending", MaxResults=50
        )
    except client.exceptions.ClientError as error:
        return [f"events could not be read: {error}"]
    texts = dict.fromkeys(
        f"event of group {event['InstanceGroupName']}: {event.get('Description', '')}"
        for event in page.get("Events", [])
        if event.get("EventLevel") in {"Warn", "Error"} and event.get("InstanceGroupName") in groups
    )
    return list(texts)[:3]
