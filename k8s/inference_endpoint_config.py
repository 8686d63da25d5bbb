"""The closed schema of the InferenceEndpointConfig resource, as far as this package writes it.

It is our own description of ``inference.sagemaker.aws.amazon.com/v1``, so that a manifest is
checked on every machine, without the operator's CRD. Where it differs from the CRD it is stricter:
the CRD accepts a model name with dots and a role without GPUs, and neither can run.
Field names are the resource's own in snake case; the aliases are the names in the manifest.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dpd.spec.guard import DOMAIN_PATTERN
from k8s.model_source import ModelSourceConfig
from k8s.part import AbsolutePath, Label, Part, Positive, Text
from k8s.pd_spec import PdSpec
from k8s.worker import Worker

API_VERSION = "inference.sagemaker.aws.amazon.com/v1"
KIND = "InferenceEndpointConfig"

_LABEL_LENGTH = 63
SageMakerName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", max_length=63)]
InstanceType = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]


class Metadata(Part):
    """Name the resource."""

    # It begins the name of the operator's Service, and a Service's name begins with a letter.
    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
    namespace: Label
    labels: dict[str, str] | None = None


class IntelligentRoutingSpec(Part):
    """Switch the operator's router on; it cannot be switched later."""

    enabled: StrictBool
    routing_strategy: Literal["prefixaware", "kvaware", "session", "roundrobin"]


class KvCacheSpec(Part):
    """Switch LMCache's tiers."""

    enable_l1_cache: StrictBool
    enable_l2_cache: StrictBool


class LoadBalancer(Part):
    """Configure the target group of the load balancer."""

    health_check_path: AbsolutePath
    routing_algorithm: Literal["least_outstanding_requests", "round_robin"] | None = None


class ModelMetrics(Part):
    """Say where the engine exports metrics."""

    path: AbsolutePath
    port: Annotated[int, Field(strict=True, ge=1024, le=65535)]


class Metrics(Part):
    """Configure scraping."""

    enabled: StrictBool
    metrics_scrape_interval_seconds: Annotated[int, Field(strict=True, ge=5, le=300)] | None = None
    model_metrics: ModelMetrics


class CustomCertificateConfig(Part):
    """Name a certificate of your own, and the one name of it that the endpoint answers to."""

    acm_arn: Annotated[str, Field(pattern=r"^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$")]
    domain_name: Annotated[str, Field(pattern=DOMAIN_PATTERN, max_length=253)]


class TlsConfig(Part):
    """Say where the operator stores the certificate that it makes, or which one it takes."""

    tls_certificate_output_s3_uri: Annotated[str, Field(pattern=r"^s3://[^/\s]+(/\S*)?$")] | None = None
    custom_certificate_config: CustomCertificateConfig | None = None


class DnsConfig(Part):
    """Name the Route 53 zone in which the operator writes the endpoint's record."""

    hosted_zone_id: Annotated[str, Field(pattern=r"^Z[A-Z0-9]+$")]


class Tag(Part):
    """Tag the SageMaker endpoint."""

    name: Text
    value: str


class NodeSelectorRequirement(Part):
    """Compare one node label."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...]


class NodeSelectorTerm(Part):
    """Hold comparisons that must all be true."""

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], Field(min_length=1)]


class RequiredNodes(Part):
    """Hold terms of which one must be true."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1)]


class NodeAffinity(Part):
    """Choose nodes by label where the resource has no node selector."""

    required_during_scheduling_ignored_during_execution: RequiredNodes


class Spec(Part):
    """Describe one endpoint."""

    model_name: SageMakerName
    endpoint_name: SageMakerName | None = None
    instance_type: InstanceType | None = None
    instance_types: Annotated[tuple[InstanceType, ...], Field(min_length=1)] | None = None
    node_affinity: NodeAffinity | None = None
    replicas: Positive | None = None
    max_deploy_time_in_seconds: Positive
    invocation_endpoint: Annotated[str, Field(pattern=r"^[a-z0-9_/-]+$")]
    model_source_config: ModelSourceConfig
    worker: Worker
    pd_spec: PdSpec | None = None
    intelligent_routing_spec: IntelligentRoutingSpec
    kv_cache_spec: KvCacheSpec
    load_balancer: LoadBalancer
    metrics: Metrics
    tls_config: TlsConfig
    dns_config: DnsConfig | None = None
    tags: tuple[Tag, ...] | None = None

    @model_validator(mode="after")
    def _record_has_a_certificate(self) -> Spec:
        if self.dns_config and self.tls_config.custom_certificate_config is None:
            raise ValueError("dnsConfig needs tlsConfig.customCertificateConfig")
        return self

    @model_validator(mode="after")
    def _one_way_to_choose_nodes(self) -> Spec:
        ways = (self.instance_type, self.instance_types, self.node_affinity)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("give exactly one of instanceType, instanceTypes and nodeAffinity")
        return self


class InferenceEndpointConfig(Part):
    """Describe the whole resource."""

    api_version: Literal["inference.sagemaker.aws.amazon.com/v1"] = API_VERSION
    kind: Literal["InferenceEndpointConfig"] = KIND
    metadata: Metadata
    spec: Spec

    @model_validator(mode="after")
    def _service_name_fits(self) -> InferenceEndpointConfig:
        service = f"{self.metadata.name}-{self.metadata.namespace}-routing-service"
        if len(service) > _LABEL_LENGTH:
            raise ValueError(
                f"the operator's Service would be called {service}: over {_LABEL_LENGTH} characters"
            )
        return self
