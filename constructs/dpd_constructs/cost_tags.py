"""Tags on everything that can carry them, so that a bill can be divided by environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import aws_cdk as cdk
from constructs import Construct

# CDK makes these without its tag support. Paths below a stack, and whether their tags are a mapping.
_WITHOUT_SUPPORT: Final = {
    ("AWSCDKCfnUtilsProviderCustomResourceProvider", "Role"): False,
    ("AWSCDKCfnUtilsProviderCustomResourceProvider", "Handler"): False,
    ("Eks", "Cluster", "KubectlReadyBarrier"): True,
}


def tag(stack: cdk.Stack, tags: Mapping[str, str]) -> None:
    """Tag every resource of a stack that is complete."""
    for key, value in tags.items():
        cdk.Tags.of(stack).add(key, value)
    for path, is_mapping in _WITHOUT_SUPPORT.items():
        resource = _find(stack, path)
        if resource is not None:
            listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
            resource.add_property_override("Tags", dict(sorted(tags.items())) if is_mapping else listed)


def _find(stack: cdk.Stack, path: tuple[str, ...]) -> cdk.CfnResource | None:
    at: Construct | None = stack
    for part in path:
        at = cast("Construct | None", at.node.try_find_child(part)) if at is not None else None
    return cast("cdk.CfnResource | None", at)
