"""The base of every part of the InferenceEndpointConfig resource, and the scalars they share."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from dpd.closed_model import ClosedModel

# Numbers are strict: Kubernetes refuses "8" where it wants 8.
Count = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Text = Annotated[str, Field(min_length=1)]
AbsolutePath = Annotated[str, Field(pattern=r"^/[a-zA-Z0-9_./-]*$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Quantity = Count | Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i|[MGTPE])?$")]
"""A Kubernetes resource quantity: a whole number, or one with a suffix such as Gi."""


def _manifest_name(field: str) -> str:
    """Return the field's name in the manifest: camel case, but for what Kubernetes spells in capitals."""
    return {"commit_sha": "commitSHA", "same_az": "sameAZ"}.get(field, to_camel(field))


class Part(ClosedModel):
    """Write a field in camel case; the base of every part of the resource."""

    model_config = ConfigDict(alias_generator=_manifest_name, validate_by_name=True, validate_by_alias=True)
