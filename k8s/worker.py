"""The engine's container in an InferenceEndpointConfig, and what a pod of it needs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from k8s.part import AbsolutePath, Label, Part, Port, Positive, Quantity, Text


class EnvironmentVariable(Part):
    """Set one variable of the worker's container."""

    name: Annotated[str, Field(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    value: str


class InvocationPort(Part):
    """Name the port on which the engine listens."""

    container_port: Port
    name: Literal["http", "grpc"] = "http"


class VolumeMount(Part):
    """Say where the weights appear in the container."""

    name: Label
    mount_path: AbsolutePath


class ResourceRequirements(Part):
    """State requests and limits; extended resources must be equal in both, as Kubernetes demands."""

    requests: dict[str, Quantity]
    limits: dict[str, Quantity]

    @model_validator(mode="after")
    def _extended_equal(self) -> ResourceRequirements:
        for name in (self.requests.keys() | self.limits.keys()) - {"cpu", "memory"}:
            if self.requests.get(name) != self.limits.get(name):
                raise ValueError(f"request and limit of {name} differ")
        return self


class HttpGet(Part):
    """Ask one path over HTTP."""

    path: AbsolutePath
    port: Port


class Probe(Part):
    """Ask the engine how it is; times are in seconds."""

    http_get: HttpGet
    period_seconds: Positive
    timeout_seconds: Positive
    failure_threshold: Positive


class Probes(Part):
    """Hold the three probes of a container."""

    startup_probe: Probe
    readiness_probe: Probe
    liveness_probe: Probe


class Worker(Part):
    """Describe the engine's container; both roles share all of it but the resources."""

    image: Text
    args: tuple[str, ...]
    environment_variables: tuple[EnvironmentVariable, ...]
    model_invocation_port: InvocationPort
    model_volume_mount: VolumeMount
    resources: ResourceRequirements
    probes: Probes | None = None

    @model_validator(mode="after")
    def _unique_variables(self) -> Worker:
        names = [variable.name for variable in self.environment_variables]
        if len(names) != len(set(names)):
            raise ValueError("a variable stands twice; the resource keys its list by name")
        return self
