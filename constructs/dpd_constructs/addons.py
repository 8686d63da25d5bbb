"""The EKS add-ons that must run before the inference operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.facts import AddonFact, Facts
from dpd.spec.environment import Environment
from dpd_constructs.irsa import IrsaRole, IrsaRoleProps
from dpd_constructs.keys import through_s3
from dpd_constructs.kubernetes_waits import TRIAL_NAMESPACE, KubernetesWaits
from dpd_constructs.reasons import wildcard

COREDNS: Final = "coredns"
CERT_MANAGER: Final = "cert-manager"
S3_CSI: Final = "aws-mountpoint-s3-csi-driver"
FSX_CSI: Final = "aws-fsx-csi-driver"
METRICS_SERVER: Final = "metrics-server"
DEPENDENCY_ADDONS: Final = (CERT_MANAGER, S3_CSI, FSX_CSI, METRICS_SERVER)


def addon_version(name: str, environment: Environment, facts: Facts) -> str:
    """Return the pinned version of an add-on: the environment's, else the default of the facts."""
    return environment.addons.get(name) or facts.addons[name].default_version


def addon_service_account(fact: AddonFact) -> str:
    """Return `namespace:name` of the service account that the add-on itself creates.

    Making that account here first would collide with the add-on; its role is passed along instead.
    """
    if fact.service_account is None:
        raise ValueError("the facts name no service account for an add-on that needs a role")
    return f"{fact.namespace}:{fact.service_account}"


@dataclass(frozen=True)
class OperatorDependenciesProps:
    """Say which cluster gets the add-ons, and which folders of the weights its pods read."""

    environment: Environment
    facts: Facts
    cluster: eks.ICluster
    oidc_provider: iam.IOpenIdConnectProvider
    weights_bucket: s3.IBucket
    weights_prefixes: Sequence[str]
    waits: KubernetesWaits


class OperatorDependencies(Construct):
    """Install cert-manager, both CSI drivers and metrics-server, and wait for cert-manager's webhook.

    The operator checks for both CSI drivers even where no model uses FSx (developer guide, page
    sagemaker-hyperpod-model-deployment-setup). An operator that comes before the webhook answers
    fails with `no endpoints available`. CoreDNS comes along where the cluster is made here: its pods need
    nodes, and until then EKS's own copy, which every new cluster has (EKS user guide, page
    managing-coredns), is enough.
    """

    def __init__(self, scope: Construct, construct_id: str, props: OperatorDependenciesProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        if props.environment.kubernetes.existing is None:
            self._addon("CoreDns", COREDNS)
        cert_manager = self._addon("CertManager", CERT_MANAGER)
        self._addon("S3Csi", S3_CSI, self._read_weights())
        self._addon("FsxCsi", FSX_CSI, self._find_file_systems())
        self._addon("MetricsServer", METRICS_SERVER)
        webhook = props.waits.wait(
            self,
            "CertManagerWebhook",
            check="webhook",
            resource_type="Custom::CertManagerWebhookAnswers",
            properties={
                "Namespace": TRIAL_NAMESPACE,
                # Read by nobody: another version is waited for again.
                "AddonVersion": addon_version(CERT_MANAGER, props.environment, props.facts),
            },
        )
        if cert_manager is not None:
            webhook.node.add_dependency(cert_manager)

    def _addon(
        self, construct_id: str, name: str, statements: Sequence[iam.PolicyStatement] = ()
    ) -> eks.CfnAddon | None:
        """Install an add-on; None where an existing cluster has it, which then keeps its own role."""
        existing = self._props.environment.kubernetes.existing
        if existing is not None and name in existing.addons:
            return None
        role = self._role(f"{construct_id}Role", name, statements) if statements else None
        return eks.CfnAddon(
            self,
            construct_id,
            addon_name=name,
            # Unpinned, an add-on changes under a running cluster (awslabs/awsome-distributed-ai#1076).
            addon_version=addon_version(name, self._props.environment, self._props.facts),
            cluster_name=self._props.cluster.cluster_name,
            resolve_conflicts="OVERWRITE",
            service_account_role_arn=role.role_arn if role else None,
        )

    def _role(self, construct_id: str, addon: str, statements: Sequence[iam.PolicyStatement]) -> iam.Role:
        return IrsaRole(
            self,
            construct_id,
            IrsaRoleProps(
                oidc_provider=self._props.oidc_provider,
                service_account=addon_service_account(self._props.facts.addons[addon]),
                inline_policies={"volumes": statements},
            ),
        ).role

    def _read_weights(self) -> Sequence[iam.PolicyStatement]:
        """Let the environment's models be read; nothing that serves them writes weights."""
        bucket = self._props.weights_bucket
        folders = [bucket.arn_for_objects(f"{name.rstrip('/')}/*") for name in self._props.weights_prefixes]
        statements = [iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn])]
        if folders:
            files = "The files of a model are named by whoever uploads them, below its own prefix."
            statements.append(
                wildcard("ModelFolders", files, actions=["s3:GetObject"], resources=folders),
            )
            statements += through_s3(bucket.encryption_key, Stack.of(self), "kms:Decrypt")
        return statements

    def _find_file_systems(self) -> Sequence[iam.PolicyStatement]:
        """Let existing file systems be found; the full access of AWS's guide could delete them."""
        stack = Stack.of(self)
        return [
            wildcard(
                "FindFileSystems",
                "FSx has no resource type for reading its list.",
                actions=["fsx:DescribeFileSystems"],
                conditions={"StringEquals": {"aws:RequestedRegion": stack.region}},
            )
        ]
