"""The cdk8s chart of one deployment; kept apart from rendering, which needs no Node.js."""

from __future__ import annotations

from typing import cast

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

from dpd.spec.deployment import Deployment
from k8s.render import Bindings, manifests


def chart(scope: Construct, id: str, deployment: Deployment, bindings: Bindings) -> Chart:
    """Return a chart with one ApiObject for each manifest; raises RuntimeNotRendered as they do."""
    result = Chart(scope, id)
    for manifest in manifests(deployment, bindings):
        metadata = cast("dict[str, object]", manifest["metadata"])
        kind = str(manifest["kind"])
        item = ApiObject(
            result,
            kind,
            api_version=str(manifest["apiVersion"]),
            kind=kind,
            metadata=ApiObjectMetadata(**metadata),  # pyright: ignore[reportArgumentType]
        )
        if "spec" in manifest:
            # The Python binding of ApiObject takes no further properties.
            item.add_json_patch(JsonPatch.add("/spec", manifest["spec"]))
    return result
