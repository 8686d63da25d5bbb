"""Scale the GPU groups of a HyperPod cluster to zero, or back, at the hours of a schedule.

A wish comes as a message of a queue, which brings it again after a failure until it is met or given up.
UpdateCluster takes whole specifications, so everything but the counts is handed back as
DescribeCluster told it. What the SDK of this runtime does not know would be dropped on the way; the
handler refuses to run then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, cast

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)

# DescribeCluster gives these in a form of their own, or under another name (API reference,
# ClusterInstanceGroupDetails and ClusterInstanceGroupSpecification).
_TRANSLATED = frozenset(
    {
        "InstanceCount",
        "MinInstanceCount",
        "InstanceType",
        "InstanceRequirements",
        "KubernetesConfig",
        "AutoPatchConfig",
    }
)
# The stacks never set an image: a group keeps the one it has, as when CloudFormation updates it.
_OMITTED = frozenset({"ImageId", "ImageReleaseVersion"})


def handle(event: Mapping[str, Any], _context: object, *, client: Any = None) -> dict[str, int]:
    """Bring the groups of the wish's `Counts` to their counts, and leave all others as they are.

    ``event`` holds one message. Returns the counts that were asked for; empty where nothing had to
    change. Raises RuntimeError where the cluster is busy, so that the message comes again, or where a
    field would be lost.
    """
    if client is None:
        client = _sagemaker()
    (record,) = event["Records"]
    wish = json.loads(record["body"])
    name, counts = wish["ClusterName"], {key: int(value) for key, value in wish["Counts"].items()}
    specification = client.meta.service_model.shape_for("ClusterInstanceGroupSpecification")
    lost = [field for field in wish["Fields"] if not _knows(specification, field.split("."))]
    if lost:
        raise RuntimeError(f"the SDK of this runtime does not know {', '.join(lost)}; nothing was changed")
    cluster = client.describe_cluster(ClusterName=name)
    groups = cluster["InstanceGroups"]
    absent = sorted(set(counts) - {group["InstanceGroupName"] for group in groups})
    if absent:
        raise RuntimeError(f"cluster {name} has no group {', '.join(absent)}; nothing was changed")
    changed = {
        part: counts[part]
        for group in groups
        if (part := group["InstanceGroupName"]) in counts and counts[part] != group["TargetCount"]
    }
    if not changed:
        return {}
    if cluster["ClusterStatus"] != "InService":
        raise RuntimeError(f"cluster {name} is {cluster['ClusterStatus']}; nothing was changed")
    known = set(specification.members)
    client.update_cluster(
        ClusterName=name, InstanceGroups=[_specification(group, changed, known) for group in groups]
    )
    _log.info("asked cluster %s for %s", name, changed)
    return changed


def _sagemaker() -> Any:
    import boto3  # pyright: ignore[reportMissingTypeStubs] - part of the Lambda runtime

    return cast("Any", boto3).client("sagemaker")


def _knows(shape: Any, path: list[str]) -> bool:
    """Tell whether a shape of the service model has a member at ``path``, through lists, in any case.

    CDK writes some names in a case of its own, such as volumeSizeInGb.
    """
    while shape.type_name == "list":
        shape = shape.member
    if not path or shape.type_name == "map":
        return True
    members = {name.lower(): member for name, member in getattr(shape, "members", {}).items()}
    first, *rest = path
    return first.lower() in members and _knows(members[first.lower()], rest)


def _specification(group: Mapping[str, Any], changed: Mapping[str, int], known: set[str]) -> dict[str, Any]:
    """Turn what DescribeCluster says about one group into what UpdateCluster takes."""
    count = changed.get(group["InstanceGroupName"], group["TargetCount"])
    same = known - _TRANSLATED - _OMITTED
    specification = {key: value for key, value in group.items() if key in same}
    specification["InstanceCount"] = count
    if group.get("MinCount"):
        specification["MinInstanceCount"] = min(group["MinCount"], count)
    types = _wanted(group.get("InstanceRequirements", {}), "InstanceTypes")
    if types:
        specification["InstanceRequirements"] = {"InstanceTypes": types}
    else:
        specification["InstanceType"] = group["InstanceType"]
    kubernetes = group.get("KubernetesConfig", {})
    wanted = {
        part: value for part in ("Labels", "Taints") if (value := _wanted(kubernetes, part)) is not None
    }
    if wanted:
        specification["KubernetesConfig"] = wanted
    if "AutoPatchConfig" in group:
        specification["AutoPatchConfig"] = _auto_patch(group["AutoPatchConfig"])
    return specification


def _wanted(details: Mapping[str, Any], part: str) -> Any:
    """Return what was last asked for, be it empty, and else what is there."""
    desired = details.get(f"Desired{part}")
    return details.get(f"Current{part}") if desired is None else desired


def _auto_patch(details: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a patching strategy; its next date is the service's own business unless one was asked for."""
    asked = details.get("DesiredPatchSchedule")
    rest = {key: value for key, value in details.items() if not key.endswith("PatchSchedule")}
    return {**rest, "PatchSchedule": asked} if asked else rest
