"""Whether the nodes of each GPU group offer every GPU and EFA device that their type has.

A node can be Ready while a device plugin is missing, crash-loops or counts wrongly (reports P-23 and
P-29); pods then stay Pending, or run without EFA and fall back to TCP.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from .api import Api

# Deep health checks take hours, longer than CloudFormation waits, and whether every plugin tolerates their
# taint is not documented; such a node counts as complete, as it counts as arrived (page
# sagemaker-hyperpod-eks-resiliency-node-labels).
_HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
_IN_CHECKS = "Unschedulable"


def missing(api: Api, properties: Mapping[str, Any]) -> list[str]:
    """Say what each of ``properties['Groups']`` lacks; groups of no node ask for nothing."""
    groups = [group for group in properties["Groups"] if int(group["Count"])]
    return [text for text in (_group(api, group) for group in groups) if text]


def _group(api: Api, group: Mapping[str, Any]) -> str:
    """Say what a group lacks; empty where nothing is missing."""
    selector = urllib.parse.quote(f"{group['Label']}={group['Name']}")
    nodes = api(f"/api/v1/nodes?labelSelector={selector}")["items"]
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
