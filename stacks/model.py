"""The stack of one model: its manifests, applied to the cluster."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.spec.deployment import Deployment
from dpd.spec.environment import Environment
from dpd_constructs.network_parts import NetworkParts
from k8s.render import Bindings, manifests
from stacks.cluster import ClusterStack
from stacks.operator import OperatorStack


class ModelStack(cdk.Stack):
    """Apply the manifests of one model, one resource each, in their order.

    They lie in this stack and not under the cluster's: a chart added to the cluster would be applied
    before the operator exists.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        deployment: Deployment,
        cluster_stack: ClusterStack,
        operator_stack: OperatorStack,
        network: NetworkParts,
        weights_bucket: s3.IBucket,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        # CloudFormation refuses to delete an export that is in use, so the operator cannot go before
        # the endpoints that only it can clean up.
        cdk.CfnOutput(self, "OperatorCrd", value=f"pdSpec is known: {operator_stack.crd_ready}")
        bindings = Bindings(
            weights_bucket.bucket_name, operator_stack.tls_bucket_name, network.placement_group_name
        )
        before: eks.KubernetesManifest | None = None
        for manifest in manifests(deployment, bindings):
            shared = manifest["kind"] == "Namespace"
            resource = eks.KubernetesManifest(
                self,
                str(manifest["kind"]),
                cluster=cluster_stack.cluster,  # pyright: ignore[reportArgumentType] - jsii types
                manifest=[manifest],
                # All models share the namespace: the second one finds it there, and the first one to
                # go must not take it along.
                overwrite=shared,
                removal_policy=cdk.RemovalPolicy.RETAIN if shared else cdk.RemovalPolicy.DESTROY,
                # Pruning knows built-in kinds only, and would write its label into the manifest.
                prune=False,
            )
            if before is not None:
                resource.node.add_dependency(before)
            before = resource
