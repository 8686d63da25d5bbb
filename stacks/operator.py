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
from dpd_constructs.addons import OperatorDependencies, OperatorDependenciesProps
from dpd_constructs.buckets import private_bucket
from dpd_constructs.operator_addon import InferenceOperator, InferenceOperatorProps
from stacks.cluster import ClusterStack
from stacks.hyperpod import HyperPodStack


class OperatorStack(cdk.Stack):
    """Hold the operator: nodes, then what it depends on, then the operator, then its CRD.

    Attributes: ``crd_ready`` (token), ``tls_bucket_name``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        cluster_stack: ClusterStack,
        hyperpod_stack: HyperPodStack,
        weights_bucket: s3.IBucket,
        deployments: Sequence[Deployment],
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.tls_bucket_name = self._tls_bucket_name(environment)
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
                tls_bucket_name=self.tls_bucket_name,
            ),
        )
        operator.addon.node.add_dependency(dependencies)
        self.crd_ready = operator.crd_ready

    def _tls_bucket_name(self, environment: Environment) -> str:
        if environment.operator.tls_bucket:
            return environment.operator.tls_bucket
        return private_bucket(
            self,
            "TlsBucket",
            bucket_name=tls_bucket_name(environment.name, self.account, environment.region),
            protected=environment.protected,
        ).bucket_name


def _weights_prefixes(deployments: Sequence[Deployment]) -> list[str]:
    weights = [deployment.model.weights for deployment in deployments]
    return sorted({row.prefix for row in weights if row.source == "s3" and row.prefix})
