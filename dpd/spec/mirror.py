"""The schema of what `dpd mirror` copied for an environment: images by digest, and the base chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpd.closed_model import ClosedModel

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class MirroredImage(ClosedModel):
    """Say where a copy of an image lies, and which bytes it is."""

    target: Annotated[str, Field(pattern=r"^\S+/\S+:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    """Repository and tag in this account's registry."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]

    @property
    def reference(self) -> str:
        """Return the full reference; the digest decides, the tag is for people."""
        return f"{self.target}@{self.digest}"


class MirroredChart(ClosedModel):
    """Say where the archive of the base chart lies, with its dependencies inside."""

    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    uri: Annotated[str, Field(pattern=r"^s3://[a-z0-9.-]+/\S+\.tar$")]
    sha256: Sha256


class Mirror(ClosedModel):
    """List what was copied; config/mirror/<environment>.yaml holds it and `dpd mirror --apply` writes it."""

    images: dict[str, MirroredImage] = {}
    """By the reference that was copied."""
    chart: MirroredChart | None = None
