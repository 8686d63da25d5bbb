"""Render a deployment as the resource that the HyperPod inference operator runs.

Both roles come from the one Deployment object: the image, the variables and the shared arguments
stand once, in ``worker``, and a role adds only its own arguments, nodes and resources.

The complete example on the page sagemaker-hyperpod-model-deployment-dpd is not enough to run on.
Added to it, each with its reason where it is set: EFA devices, cores and memory, node selectors,
probes, the metrics port and a longer time to deploy here; decoders without prefix caching, EFA's
variables and whole chunks for short prompts in the Deployment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import yaml

from dpd.spec.deployment import HTTP_PORT, NAMESPACE, Deployment
from dpd.spec.environment import Environment
from dpd.spec.guard import Endpoint
from k8s.autoscaling import pd_auto_scaling
from k8s.inference_endpoint_config import (
    CustomCertificateConfig,
    DnsConfig,
    InferenceEndpointConfig,
    IntelligentRoutingSpec,
    KvCacheSpec,
    LoadBalancer,
    Metadata,
    Metrics,
    ModelMetrics,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    RequiredNodes,
    Spec,
    Tag,
    TlsConfig,
)
from k8s.model_source import FsxStorage, HuggingFaceModel, ModelSourceConfig, S3Storage, SecretKeyRef
from k8s.pd_spec import PdSpec, TopologySpec
from k8s.pods import HEALTH_PATH, STARTUP_LIMIT_S, role_spec, worker

Manifest = dict[str, object]

_MANAGED = {"app.kubernetes.io/managed-by": "hyperpod-dpd"}
# The operator's clock also runs while the node pulls the image; its default of 3600 s would end a
# deployment that the startup probe still allows.
_IMAGE_PULL_S = 30 * 60
# Deep health checks hold a new node back for minutes to hours (developer guide, page
# sagemaker-hyperpod-eks-resiliency-deep-health-checks); pods wait for it meanwhile.
_DEEP_HEALTH_CHECKS_S = 4 * 3600


class RuntimeNotRendered(ValueError):
    """Say that a deployment does not belong to the operator runtime."""


class _Nodes(TypedDict, total=False):
    instance_type: str
    instance_types: tuple[str, ...]
    node_affinity: NodeAffinity


@dataclass(frozen=True, slots=True)
class Bindings:
    """Name what only the stacks know; each may be a CloudFormation token.

    ``placement_group`` is that of the environment, None where it has none.
    """

    weights_bucket: str
    tls_bucket: str
    placement_group: str | None = None


def manifests(deployment: Deployment, bindings: Bindings) -> list[Manifest]:
    """Return the namespace and the endpoint, in the order in which they must be applied.

    Raises RuntimeNotRendered for the self-managed runtime and for weights that exist only locally.
    """
    return [namespace_manifest(), endpoint_manifest(deployment, bindings)]


def namespace_manifest() -> Manifest:
    """Return the namespace that all endpoints of a cluster share."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": dict(_MANAGED)},
    }


def endpoint_manifest(deployment: Deployment, bindings: Bindings) -> Manifest:
    """Return the InferenceEndpointConfig; raises as ``manifests`` does."""
    serving, name = deployment.model.serving, deployment.model.kubernetes_name
    if serving.runtime != "operator":
        raise RuntimeNotRendered(
            f"{deployment.model.name}: serving.runtime is `{serving.runtime}`, and an"
            " InferenceEndpointConfig belongs to the runtime `operator`"
        )
    resource = InferenceEndpointConfig(
        metadata=Metadata(
            name=name,
            namespace=NAMESPACE,
            labels={**_MANAGED, "app.kubernetes.io/name": name},
        ),
        spec=_spec(deployment, bindings),
    )
    return resource.model_dump(mode="json", by_alias=True, exclude_none=True)


def to_yaml(documents: Sequence[Manifest]) -> str:
    """Return ``documents`` as one YAML stream; equal input gives equal bytes."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Write equal values out each time, since people read manifests."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _spec(deployment: Deployment, bindings: Bindings) -> Spec:
    model, environment = deployment.model, deployment.environment
    strategy = model.dpd.routing.strategy
    return Spec(
        # SageMaker's own model names have no dots, though the CRD lets them pass.
        model_name=model.kubernetes_name,
        **_nodes(deployment),
        # Disaggregated, each role counts its own.
        replicas=None if deployment.disaggregated else deployment.role("worker").replicas,
        max_deploy_time_in_seconds=_deploy_limit_s(environment),
        # The kvaware router looks tokens up by `prompt`, which chat bodies do not have, and AWS
        # demands the completions path for it.
        invocation_endpoint="v1/completions" if strategy == "kvaware" else "v1/chat/completions",
        model_source_config=_model_source(deployment, bindings),
        worker=worker(deployment),
        pd_spec=_pd_spec(deployment, bindings) if deployment.disaggregated else None,
        # Adding it to an endpoint that runs is refused, so it is always there.
        intelligent_routing_spec=IntelligentRoutingSpec(enabled=True, routing_strategy=strategy),
        kv_cache_spec=_kv_cache(deployment),
        load_balancer=LoadBalancer(health_check_path=HEALTH_PATH),
        # The default port is 8080, where vLLM does not listen (CRD, metrics.modelMetrics.port).
        metrics=Metrics(enabled=True, model_metrics=ModelMetrics(path="/metrics", port=HTTP_PORT)),
        tls_config=_tls(environment.endpoint, bindings),
        dns_config=_dns(environment.endpoint),
        tags=tuple(Tag(name=key, value=value) for key, value in sorted(environment.tags.items())) or None,
    )


def _tls(endpoint: Endpoint, bindings: Bindings) -> TlsConfig:
    """Take the certificate of the configuration, else let the operator make one (TLS001 wants both keys)."""
    if endpoint.certificate_arn and endpoint.domain_name:
        return TlsConfig(
            custom_certificate_config=CustomCertificateConfig(
                acm_arn=endpoint.certificate_arn, domain_name=endpoint.domain_name
            )
        )
    return TlsConfig(tls_certificate_output_s3_uri=f"s3://{bindings.tls_bucket}/certificates")


def _dns(endpoint: Endpoint) -> DnsConfig | None:
    return DnsConfig(hosted_zone_id=endpoint.hosted_zone_id) if endpoint.hosted_zone_id else None


def _kv_cache(deployment: Deployment) -> KvCacheSpec:
    """Switch LMCache's tier in host memory; vLLM takes one connector, so not beside NIXL's own."""
    dpd = deployment.model.dpd
    return KvCacheSpec(
        enable_l1_cache=dpd.l1_cache.enabled and dpd.transport == "lmcache", enable_l2_cache=False
    )


def _deploy_limit_s(environment: Environment) -> int:
    checks = _DEEP_HEALTH_CHECKS_S if environment.hyperpod.deep_health_checks else 0
    return STARTUP_LIMIT_S + _IMAGE_PULL_S + checks


def _nodes(deployment: Deployment) -> _Nodes:
    """Say which nodes are meant; the resource takes exactly one of three ways.

    Disaggregated, each role's node selector decides, and the types only state what both pools
    together may use: one type as the documented example has it, two as a list, whose order of
    preference has no effect once the selector names a pool. Colocated, there is no selector and a
    type alone would also fit the other pool's nodes, so the labels go into an affinity.
    """
    if not deployment.disaggregated:
        return {"node_affinity": _affinity(deployment.role("worker").node_selector)}
    types = tuple(dict.fromkeys(name for role in deployment.roles for name in role.group.instance_types))
    return {"instance_type": types[0]} if len(types) == 1 else {"instance_types": types}


def _affinity(labels: Mapping[str, str]) -> NodeAffinity:
    requirements = tuple(
        NodeSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in sorted(labels.items())
    )
    nodes = RequiredNodes(node_selector_terms=(NodeSelectorTerm(match_expressions=requirements),))
    return NodeAffinity(required_during_scheduling_ignored_during_execution=nodes)


def _model_source(deployment: Deployment, bindings: Bindings) -> ModelSourceConfig:
    weights = deployment.model.weights
    if weights.source == "s3":
        return ModelSourceConfig(
            model_source_type="s3",
            s3_storage=S3Storage(bucket_name=bindings.weights_bucket, region=deployment.environment.region),
            model_location=weights.prefix,
        )
    if weights.source == "fsx" and weights.file_system_id:
        return ModelSourceConfig(
            model_source_type="fsx",
            fsx_storage=FsxStorage(file_system_id=weights.file_system_id),
            model_location=weights.prefix,
        )
    if weights.source == "huggingface":
        secret = weights.token_secret
        return ModelSourceConfig(
            model_source_type="huggingface",
            hugging_face_model=HuggingFaceModel(
                model_id=deployment.model.huggingface_id,
                commit_sha=weights.revision,
                token_secret_ref=SecretKeyRef(name=secret, key="token") if secret else None,
            ),
        )
    raise RuntimeNotRendered(
        f"{deployment.model.name}: weights from `{weights.source}` exist only on the machine that made"
        " them; the operator reads s3, fsx or huggingface"
    )


def _pd_spec(deployment: Deployment, bindings: Bindings) -> PdSpec:
    topology = deployment.model.dpd.topology
    return PdSpec(
        routing_threshold=deployment.model.dpd.routing.threshold_tokens,
        prefill_spec=role_spec(deployment.role("prefill")),
        decoding_spec=role_spec(deployment.role("decode")),
        # A zone or a placement group is named only on request: HyperPod places the groups, and its
        # nodes cannot join a placement group.
        topology_spec=TopologySpec(
            same_az=topology.same_zone,
            availability_zone=topology.availability_zone,
            placement_group=_placement_group(topology.placement_group, bindings),
        ),
        auto_scaling_spec=pd_auto_scaling(deployment),
    )


def _placement_group(asked: str | None, bindings: Bindings) -> str | None:
    """Return the group's name; raises ValueError where the environment is asked for one and has none."""
    if asked != "environment":
        return asked
    if bindings.placement_group is None:
        raise ValueError("the environment has no placement group; see `dpd rules LBL002`")
    return bindings.placement_group
