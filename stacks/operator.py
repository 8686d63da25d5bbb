"""The stack of the inference operator and of the add-ons that it stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import Deployment
from dpd.spec.environment import Environment
from dpd.spec.names import tls_bucket_name
from dpd_constructs.addons import DEPENDENCY_ADDONS, OperatorDependencies, OperatorDependenciesProps
from dpd_constructs.addons_active import AddonsActive, AddonsActiveProps
from dpd_constructs.buckets import private_bucket
from dpd_constructs.devices_ready import DevicesReady, DevicesReadyProps
from dpd_constructs.eks_cluster import BASE_ADDONS
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
        tls_bucket = self._tls_bucket(environment, security_stack)
        self.tls_bucket_name = tls_bucket.bucket_name
        dependencies = OperatorDependencies(
            self,
            "Dependencies",
            OperatorDependenciesProps(
                environment=environment,
                facts=facts,
                cluster=cluster_stack.cluster,
                oidc_provider=cluster_stack.oidc_provider,
                weights_bucket=weights_bucket,
                weights_prefixes=_weights_prefixes(deployments),
            ),
        )
        operator = InferenceOperator(
            self,
            "Operator",
            InferenceOperatorProps(
                environment=environment,
                facts=facts,
                cluster=cluster_stack.cluster,
                oidc_provider=cluster_stack.oidc_provider,
                hyperpod_cluster_arn=hyperpod_stack.cluster_arn,
                tls_bucket=tls_bucket,
            ),
        )
        operator.addon.node.add_dependency(dependencies)
        self.crd_ready = operator.crd_ready
        # Both run beside other things: devices are counted while add-ons are installed.
        made_here = BASE_ADDONS if environment.kubernetes.existing is None else ()
        active = AddonsActive(
            self,
            "AddonsActive",
            AddonsActiveProps(cluster_stack.cluster, (*made_here, *DEPENDENCY_ADDONS, OPERATOR_ADDON)),
        )
        active.resource.node.add_dependency(operator.addon)
        DevicesReady(
            self, "DevicesReady", DevicesReadyProps(environment, facts, cluster_stack.cluster, network)
        )

    def _tls_bucket(self, environment: Environment, security_stack: SecurityStack) -> s3.IBucket:
        if environment.operator.tls_bucket:
            return s3.Bucket.from_bucket_name(self, "TlsBucket", environment.operator.tls_bucket)
        return private_bucket(
            self,
            "TlsBucket",
            bucket_name=tls_bucket_name(environment.name, self.account, environment.region),
            standard=security_stack.buckets,
        )


def _weights_prefixes(deployments: Sequence[Deployment]) -> list[str]:
    weights = [deployment.model.weights for deployment in deployments]
    return sorted({row.prefix for row in weights if row.source == "s3" and row.prefix})
