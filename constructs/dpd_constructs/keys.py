"""Customer-managed keys, one for each purpose, and what a role needs to use one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
import jsii
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from dpd.spec.environment import Environment


@dataclass(frozen=True)
class Keys:
    """Hold the keys of one environment, none where AWS's own keys are to be used."""

    buckets: kms.IKey | None = None
    logs: kms.IKey | None = None
    node_volumes: kms.IKey | None = None


def customer_keys(scope: Construct, environment: Environment) -> Keys:
    """Make the keys of one environment; each rotates once a year.

    The key of Kubernetes secrets lies with its cluster, which cannot change it.
    """
    if not environment.encryption.customer_managed:
        return Keys()
    log_key = _key(scope, "LogsKey", "logs", environment)
    log_key.add_to_resource_policy(_log_service(scope))
    volume_key = _key(scope, "NodeVolumesKey", "node volumes", environment)
    volume_key.add_to_resource_policy(_node_volumes(scope))
    bucket_key = _key(scope, "BucketsKey", "buckets", environment)
    return Keys(bucket_key, log_key, volume_key)  # pyright: ignore[reportArgumentType] - jsii types


def _key(scope: Construct, construct_id: str, purpose: str, environment: Environment) -> kms.Key:
    return kms.Key(
        scope,
        construct_id,
        description=f"hyperpod-dpd {environment.name}: {purpose}",
        enable_key_rotation=True,
        # Without its key, data that was kept is lost.
        removal_policy=cdk.RemovalPolicy.RETAIN if environment.protected else cdk.RemovalPolicy.DESTROY,
    )


def _log_service(scope: Construct) -> iam.PolicyStatement:
    """Let CloudWatch Logs use the key for log groups of this account and region alone."""
    stack = Stack.of(scope)
    groups = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:*"
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],  # pyright: ignore[reportArgumentType] - jsii types
        actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def _node_volumes(scope: Construct) -> iam.PolicyStatement:
    """Let this account's roles use the key through SageMaker.

    No encryption context: HyperPod sends none (developer guide, page smcluster-cmk).
    """
    stack = Stack.of(scope)
    return iam.PolicyStatement(
        principals=[iam.AccountRootPrincipal()],  # pyright: ignore[reportArgumentType] - jsii types
        actions=["kms:CreateGrant", "kms:DescribeKey"],
        resources=["*"],
        conditions={
            "StringEquals": {
                "kms:CallerAccount": stack.account,
                "kms:ViaService": f"sagemaker.{stack.region}.amazonaws.com",
            }
        },
    )


def through_s3(key: kms.IKey | None, stack: Stack, *actions: str) -> Sequence[iam.PolicyStatement]:
    """Allow ``actions`` with a bucket's key, for S3 alone; nothing where the bucket has no key."""
    if key is None:
        return []
    return [
        iam.PolicyStatement(
            actions=list(actions),
            resources=[key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"s3.{stack.region}.amazonaws.com"}},
        )
    ]


def volume_grants(key: kms.IKey | None) -> Sequence[iam.PolicyStatement]:
    """Let a node role hand the key of node volumes to AWS, and to nobody else."""
    if key is None:
        return []
    return [
        iam.PolicyStatement(actions=["kms:DescribeKey"], resources=[key.key_arn]),
        iam.PolicyStatement(
            actions=["kms:CreateGrant"],
            resources=[key.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


@jsii.implements(cdk.IPropertyInjector)
class LogGroupStandard:
    """Give every log group our key, a retention of one month and an end, also those that CDK makes.

    A protected environment keeps its log groups. CDK's own functions would keep theirs for two years
    under AWS's key, and leave them behind everywhere.
    """

    def __init__(self, key: kms.IKey | None, *, protected: bool) -> None:
        self._own = {
            "retention": logs.RetentionDays.ONE_MONTH,
            "removalPolicy": cdk.RemovalPolicy.RETAIN if protected else cdk.RemovalPolicy.DESTROY,
        }
        self._key = {"encryptionKey": key} if key else {}

    @property
    def construct_unique_id(self) -> str:
        """Return which construct is meant."""
        return logs.LogGroup.PROPERTY_INJECTION_ID

    @jsii.member(jsii_name="inject")
    def inject(self, original_props: dict[str, object], *, scope: IConstruct, id: str) -> dict[str, object]:
        """Lay what every log group has over what the caller asks for."""
        return {**original_props, **self._own, **self._key}
