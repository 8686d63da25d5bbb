"""Whether the operator's custom resource definition is served and knows disaggregated serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .api import Api

_FIELD = "pdSpec"


def missing(api: Api, properties: Mapping[str, Any]) -> list[str]:
    """Say what the `Definition` lacks in the `Version` that is written; raises OSError where it is absent."""
    name, wanted = properties["Definition"], properties["Version"]
    definition = api(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    conditions = {row["type"]: row for row in definition.get("status", {}).get("conditions", [])}
    established = conditions.get("Established", {})
    if established.get("status") != "True":
        return [f"{name} is not established ({established.get('reason', 'unknown')})"]
    served = {row["name"]: row for row in definition["spec"]["versions"] if row["served"]}
    if wanted not in served:
        return [f"{name} is served as {', '.join(sorted(served))}, not as {wanted}"]
    root = served[wanted]["schema"]["openAPIV3Schema"]["properties"]
    if _FIELD not in root["spec"]["properties"]:
        return [f"{wanted} of {name} has no {_FIELD}: this operator knows no disaggregated serving"]
    return []
