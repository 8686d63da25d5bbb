"""The stack of the inference operator and of the add-ons that it stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import Deployment
from dpd.spec.environment import Environment
from dpd.spec.names import tls_bucket_name
from dpd_constructs.addons import (
    COREDNS,
    DEPENDENCY_ADDONS,
    OperatorDependencies,
    OperatorDependenciesProps,
    addon_version,
)
from dpd_constructs.addons_active import AddonsActive, AddonsActiveProps
from dpd_constructs.buckets import private_bucket
from dpd_constructs.devices_ready import devices_ready
from dpd_constructs.eks_cluster import BASE_ADDONS
from dpd_constructs.kubernetes_waits import KubernetesWaits, KubernetesWaitsProps
from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.operator_addon import OPERATOR_ADDON, InferenceOperator, InferenceOperatorProps
from stacks.cluster import ClusterStack
from stacks.hyperpod import HyperPodStack
from stacks.security import SecurityStack


class OperatorStack(cdk.Stack):
    """Hold the operator: nodes, then what it depends on, then the operator, then the proof that all serve.

    Attributes: ``crd_ready`` (token), ``tls_bucket_name``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        network: NetworkParts,
        cluster_stack: ClusterStack,
        hyperpod_stack: HyperPodStack,
        security_stack: SecurityStack,
        weights_bucket: s3.IBucket,
        deployments: Sequence[Deployment],
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        cluster, oidc_provider = cluster_stack.cluster, cluster_stack.oidc_provider
        tls_bucket = self._tls_bucket(environment, security_stack)
        self.tls_bucket_name = tls_bucket.bucket_name
        waits = KubernetesWaits(self, "KubernetesWaits", KubernetesWaitsProps(cluster, network))
        # Beside all else: devices are counted while add-ons are installed.
        devices_ready(self, "DevicesReady", environment=environment, facts=facts, waits=waits)
        prefixes = _weights_prefixes(deployments)
        dependencies = OperatorDependencies(
            self,
            "Dependencies",
            OperatorDependenciesProps(
                environment, facts, cluster, oidc_provider, weights_bucket, prefixes, waits
            ),
        )
        operator = InferenceOperator(
            self,
            "Operator",
            InferenceOperatorProps(
                environment, facts, cluster, oidc_provider, hyperpod_stack.cluster_arn, tls_bucket, waits
            ),
        )
        operator.addon.node.add_dependency(dependencies)
        self.crd_ready = operator.crd_ready
        self._wait_until_active(environment, facts, cluster, operator)

    def _wait_until_active(
        self, environment: Environment, facts: Facts, cluster: eks.ICluster, operator: InferenceOperator
    ) -> None:
        versions = {**_versions(environment, facts), OPERATOR_ADDON: operator.version}
        active = AddonsActive(self, "AddonsActive", AddonsActiveProps(cluster, versions))
        active.resource.node.add_dependency(operator.addon)

    def _tls_bucket(self, environment: Environment, security_stack: SecurityStack) -> s3.IBucket:
        if environment.operator.tls_bucket:
            return s3.Bucket.from_bucket_name(self, "TlsBucket", environment.operator.tls_bucket)
        return private_bucket(
            self,
            "TlsBucket",
            bucket_name=tls_bucket_name(environment.name, self.account, environment.region),
            standard=security_stack.buckets,
        )


def _versions(environment: Environment, facts: Facts) -> dict[str, str]:
    """Return the add-ons of these stacks; those of an existing cluster may not even be known to EKS."""
    existing = environment.kubernetes.existing
    theirs = {*BASE_ADDONS, COREDNS, *existing.addons} if existing else set[str]()
    names = (*BASE_ADDONS, COREDNS, *DEPENDENCY_ADDONS)
    return {name: addon_version(name, environment, facts) for name in names if name not in theirs}


def _weights_prefixes(deployments: Sequence[Deployment]) -> list[str]:
    weights = [deployment.model.weights for deployment in deployments]
    return sorted({row.prefix for row in weights if row.source == "s3" and row.prefix})
