"""The parts of a Kubernetes EndpointSlice, discovery.k8s.io/v1, that say where a Service's pods are."""

from __future__ import annotations

import msgspec


class Conditions(msgspec.Struct, frozen=True):
    """Hold the state of a pod; what the API leaves out is to be read as these defaults."""

    ready: bool = True
    terminating: bool = False


class Backend(msgspec.Struct):
    """One pod of a Service; further addresses are the same pod's."""

    addresses: list[str]
    conditions: Conditions = Conditions()

    def usable(self) -> bool:
        """Tell whether new requests may go there; a pod that terminates is out at once."""
        # A Service that publishes pods which are not ready calls terminating ones ready too.
        return self.conditions.ready and not self.conditions.terminating


class Metadata(msgspec.Struct, rename="camel"):
    """Name one version of one object."""

    name: str = ""
    resource_version: str = ""


class EndpointSlice(msgspec.Struct, rename="camel"):
    """Hold a part of a Service's endpoints. ``code`` and ``message`` are those of a Status instead."""

    metadata: Metadata
    address_type: str = ""
    endpoints: list[Backend] | None = None
    code: int = 0
    message: str = ""

    def addresses(self) -> frozenset[str]:
        """Return where the usable pods are."""
        return frozenset(one.addresses[0] for one in self.endpoints or () if one.usable() and one.addresses)


class SliceList(msgspec.Struct):
    """Hold every slice of a Service at one version."""

    metadata: Metadata
    items: list[EndpointSlice]


class Change(msgspec.Struct):
    """Hold one line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: EndpointSlice
