"""The HyperPod inference operator as an EKS add-on, with the roles that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import ROLE_LABEL
from dpd.spec.environment import Environment
from dpd.spec.merge import Merged, merge
from dpd_constructs.addons import addon_service_account
from dpd_constructs.alb_controller_policy import alb_controller_statements
from dpd_constructs.endpoint_policy import endpoint_statements
from dpd_constructs.instance_groups import SYSTEM_GROUP
from dpd_constructs.irsa import IrsaRole, IrsaRoleProps
from dpd_constructs.keys import through_s3
from dpd_constructs.kubernetes_waits import CRD_NAME, KubernetesWaits
from dpd_constructs.reasons import wildcard

OPERATOR_ADDON: Final = "amazon-sagemaker-hyperpod-inference"
# Service accounts that the add-on makes for what it bundles (developer guide, page
# sagemaker-hyperpod-model-deployment-setup).
_ALB_SERVICE_ACCOUNT: Final = "aws-load-balancer-controller"
_KEDA_SERVICE_ACCOUNT: Final = "keda-operator"
_CRD_VERSION: Final = "v1"
# What the managed policy covers: it lets the operator pass only roles with this prefix, and write
# only to buckets with that one.
_ROLE_PREFIX: Final = "SageMakerHyperPodInference"
_TLS_BUCKET_PREFIX: Final = "hyperpod-tls"


@dataclass(frozen=True)
class InferenceOperatorProps:
    """Say where the operator runs and where it keeps certificates."""

    environment: Environment
    facts: Facts
    cluster: eks.ICluster
    oidc_provider: iam.IOpenIdConnectProvider
    hyperpod_cluster_arn: str
    tls_bucket: s3.IBucket
    waits: KubernetesWaits


def operator_role_name(environment: Environment) -> str:
    """Return the name of the operator's role, at most 64 characters."""
    default = f"{_ROLE_PREFIX}-{environment.name}-{environment.region}"
    return environment.operator.execution_role_name or default


class InferenceOperator(Construct):
    """Install the operator and wait until its CRD knows disaggregated serving.

    Attributes: ``addon``; ``version``; ``crd_ready``, a token that exists once the CRD has `pdSpec`.
    """

    def __init__(self, scope: Construct, construct_id: str, props: InferenceOperatorProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self._namespace = props.facts.addons[OPERATOR_ADDON].namespace
        execution_role = self._execution_role()
        operator = props.environment.operator
        self.version: str = operator.addon_version or props.facts.addons[OPERATOR_ADDON].default_version
        configuration = merge(Merged(self._configuration(execution_role)), operator.configuration, {}).data
        self.addon: eks.CfnAddon = eks.CfnAddon(
            self,
            "Addon",
            addon_name=OPERATOR_ADDON,
            addon_version=self.version,
            cluster_name=props.cluster.cluster_name,
            resolve_conflicts="OVERWRITE",
            configuration_values=Stack.of(self).to_json_string(configuration),
        )
        crd = props.waits.wait(
            self,
            "Crd",
            check="definition",
            resource_type="Custom::InferenceDefinitionReady",
            properties={
                "Definition": CRD_NAME,
                "Version": _CRD_VERSION,
                # Read by nobody: another version is waited for again.
                "AddonVersion": self.version,
            },
        )
        crd.node.add_dependency(self.addon)
        self.crd_ready: str = crd.ref

    def _configuration(self, execution_role: iam.Role) -> dict[str, Any]:
        """Return our values; region, cluster name and VPC are the add-on's own business."""
        return {
            "executionRoleArn": execution_role.role_arn,
            "tlsCertificateS3Bucket": self._props.tls_bucket.bucket_name,
            "hyperpodClusterArn": self._props.hyperpod_cluster_arn,
            "nodeSelector": {ROLE_LABEL: SYSTEM_GROUP},
            "alb": {
                "enabled": True,
                "serviceAccount": {"create": True, "roleArn": self._alb_role().role_arn},
            },
            "keda": {
                "enabled": True,
                "auth": {"aws": {"irsa": {"enabled": True, "roleArn": self._keda_role().role_arn}}},
            },
        }

    def _execution_role(self) -> iam.Role:
        return IrsaRole(
            self,
            "ExecutionRole",
            IrsaRoleProps(
                oidc_provider=self._props.oidc_provider,
                service_account=addon_service_account(self._props.facts.addons[OPERATOR_ADDON]),
                role_name=operator_role_name(self._props.environment),
                # SageMaker registers endpoints on behalf of the operator.
                also_assumed_by="sagemaker.amazonaws.com",
                managed_policies=["AmazonSageMakerHyperPodInferenceAccess"],
                inline_policies={"extras": self._extras()},
            ),
        ).role

    def _extras(self) -> Sequence[iam.PolicyStatement]:
        """Return what the managed policy lacks."""
        stack, bucket = Stack.of(self), self._props.tls_bucket
        statements = [
            # The troubleshooting page asks for it.
            wildcard(
                "TakeBackInterfaces",
                "EC2 names no resource type for taking an interface permission back.",
                actions=["ec2:DeleteNetworkInterfacePermission"],
                conditions={"StringEquals": {"aws:RequestedRegion": stack.region}},
            ),
            *through_s3(bucket.encryption_key, stack, "kms:Decrypt", "kms:GenerateDataKey"),
            *endpoint_statements(self._props.environment, stack),
        ]
        own_name = self._props.environment.operator.tls_bucket
        if own_name and not own_name.startswith(_TLS_BUCKET_PREFIX):
            statements += [
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn]),
                wildcard(
                    "Certificates",
                    "The operator names the objects of the one bucket that it was given.",
                    actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"],
                    resources=[bucket.arn_for_objects("*")],
                ),
            ]
        return statements

    def _alb_role(self) -> iam.Role:
        stack = Stack.of(self)
        vpc_id = self._props.cluster.vpc.vpc_id
        vpc_arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:vpc/{vpc_id}"
        return self._bundled_role(
            "AlbRole", _ALB_SERVICE_ACCOUNT, alb_controller_statements(stack, vpc_arn=vpc_arn)
        )

    def _keda_role(self) -> iam.Role:
        stack = Stack.of(self)
        workspaces = f"arn:{stack.partition}:aps:{stack.region}:{stack.account}:workspace/*"
        statements = [
            wildcard(
                "Metrics",
                "CloudWatch has no resource type for metrics.",
                actions=[
                    "cloudwatch:GetMetricData",
                    "cloudwatch:GetMetricStatistics",
                    "cloudwatch:ListMetrics",
                ],
                conditions={"StringEquals": {"aws:RequestedRegion": stack.region}},
            ),
            wildcard(
                "Workspaces",
                "The workspace is in a URL of the configuration, which may name any of the account's.",
                actions=[
                    "aps:GetLabels",
                    "aps:GetMetricMetadata",
                    "aps:GetSeries",
                    "aps:QueryMetrics",
                ],
                resources=[workspaces],
            ),
        ]
        return self._bundled_role("KedaRole", _KEDA_SERVICE_ACCOUNT, {"metrics": statements})

    def _bundled_role(
        self,
        construct_id: str,
        service_account: str,
        policies: dict[str, Sequence[iam.PolicyStatement]],
    ) -> iam.Role:
        return IrsaRole(
            self,
            construct_id,
            IrsaRoleProps(
                oidc_provider=self._props.oidc_provider,
                service_account=f"{self._namespace}:{service_account}",
                inline_policies=policies,
            ),
        ).role
