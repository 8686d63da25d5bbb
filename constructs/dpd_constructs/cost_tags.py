"""Tags on everything that can carry them, so that a bill can be divided by environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import aws_cdk as cdk
from constructs import Construct

# CDK makes these without its tag support: child of a stack, paths below it.
_WITHOUT_SUPPORT: Final = {
    "AWSCDKCfnUtilsProviderCustomResourceProvider": ("Role", "Handler"),
    "Eks": ("Cluster/KubectlReadyBarrier",),
}
# The type's tags are a mapping, and not a list of pairs.
_MAPPED: Final = "Cluster/KubectlReadyBarrier"


def tag(stack: cdk.Stack, tags: Mapping[str, str]) -> None:
    """Tag every resource of a stack that is complete."""
    supported = cdk.Tags.of(stack)
    for key, value in tags.items():
        supported.add(key, value)
    node = stack.node
    for name, paths in _WITHOUT_SUPPORT.items():
        child = cast("Construct | None", node.try_find_child(name))
        for path in paths if child is not None else ():
            resource = _find(child, path)
            if resource is not None:
                resource.add_property_override("Tags", _values(path, tags))


def _values(path: str, tags: Mapping[str, str]) -> object:
    ordered = dict(sorted(tags.items()))
    return ordered if path == _MAPPED else [{"Key": key, "Value": value} for key, value in ordered.items()]


def _find(start: Construct | None, path: str) -> cdk.CfnResource | None:
    at = start
    for part in path.split("/"):
        at = cast("Construct | None", at.node.try_find_child(part)) if at is not None else None
    return cast("cdk.CfnResource | None", at)
