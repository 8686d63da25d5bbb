"""The part of an InferenceEndpointConfig that separates prefill from decode."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dpd.spec.environment import PrometheusUrl
from k8s.part import Count, Part, Positive, Text
from k8s.worker import ResourceRequirements


class RoleSpec(Part):
    """Describe one pool of pods; ``args`` follow the worker's and win."""

    replicas: Positive
    args: tuple[str, ...]
    node_selector: dict[str, str]
    resources: ResourceRequirements

    @model_validator(mode="after")
    def _has_gpus(self) -> RoleSpec:
        if not self.resources.limits.get("nvidia.com/gpu"):
            raise ValueError("a role needs nvidia.com/gpu in its resources")
        return self


class TopologySpec(Part):
    """Keep both roles close to each other."""

    same_az: StrictBool
    availability_zone: Text | None = None
    placement_group: Text | None = None


class PrometheusTrigger(Part):
    """Scale on one query; ``Average`` divides its result by the replicas, ``Value`` does not."""

    name: Text
    query: Text
    target_value: Annotated[float, Field(strict=True, gt=0)]
    metric_type: Literal["Average", "Value"]
    server_address: PrometheusUrl | None = None


class AutoScaling(Part):
    """Bound one role's replicas and say what moves them; times are in seconds."""

    min_replica_count: Count
    max_replica_count: Positive
    cooldown_period: Count
    scale_down_stabilization_time: Count
    prometheus_trigger_list: Annotated[tuple[PrometheusTrigger, ...], Field(min_length=1, max_length=100)]


class PdAutoScalingSpec(Part):
    """Scale each role by its own signal."""

    prefill_auto_scaling: AutoScaling | None = None
    decoding_auto_scaling: AutoScaling | None = None


class PdSpec(Part):
    """Disaggregate; prompts of ``routing_threshold`` estimated tokens or more go to a prefiller."""

    routing_threshold: Count
    prefill_spec: RoleSpec
    decoding_spec: RoleSpec
    topology_spec: TopologySpec
    auto_scaling_spec: PdAutoScalingSpec | None = None
