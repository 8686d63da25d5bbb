"""Private buckets: nothing public, TLS only, versioned, encrypted, with every access logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

_NONCURRENT_DAYS: Final = 30
"""Time in which an overwritten or deleted object can be brought back."""
_ABORT_UPLOAD_DAYS: Final = 7
"""Parts of an upload that never finished cost money and are in no listing."""
_ACCESS_LOG_DAYS: Final = 365


@dataclass(frozen=True)
class BucketStandard:
    """Hold what all buckets of an environment share.

    ``key`` is None for keys of S3 itself; ``access_log_bucket`` is a name. ``protected`` keeps a
    bucket when its stack goes. Without it the stack deletes the bucket, but only an empty one: CDK's
    automatic emptying is one more Lambda function with the right to delete every object.
    """

    access_log_bucket: str
    key: kms.IKey | None
    protected: bool


def private_bucket(
    scope: Construct, construct_id: str, *, bucket_name: str, standard: BucketStandard
) -> s3.Bucket:
    """Make a bucket for data."""
    bucket = s3.Bucket(
        scope,
        construct_id,
        bucket_name=bucket_name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.KMS if standard.key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=standard.key,
        # One request to KMS for many objects, instead of one for each.
        bucket_key_enabled=True if standard.key else None,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        versioned=True,
        lifecycle_rules=[
            s3.LifecycleRule(
                noncurrent_version_expiration=cdk.Duration.days(_NONCURRENT_DAYS),
                abort_incomplete_multipart_upload_after=cdk.Duration.days(_ABORT_UPLOAD_DAYS),
            )
        ],
        removal_policy=_removal(standard.protected),
    )
    # The L2 property would write a policy into the other bucket's stack for each bucket here.
    cast(
        "s3.CfnBucket", bucket.node.default_child
    ).logging_configuration = s3.CfnBucket.LoggingConfigurationProperty(
        destination_bucket_name=standard.access_log_bucket, log_file_prefix=f"{construct_id}/"
    )
    return bucket


def access_log_bucket(scope: Construct, construct_id: str, *, bucket_name: str, protected: bool) -> s3.Bucket:
    """Make the bucket that the other buckets of this account write their access logs to.

    S3 delivers these logs to buckets under its own keys only (S3 user guide, page
    enable-server-access-logging).
    """
    bucket = s3.Bucket(
        scope,
        construct_id,
        bucket_name=bucket_name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        versioned=True,
        lifecycle_rules=[
            s3.LifecycleRule(
                expiration=cdk.Duration.days(_ACCESS_LOG_DAYS),
                noncurrent_version_expiration=cdk.Duration.days(_NONCURRENT_DAYS),
            )
        ],
        removal_policy=_removal(protected),
    )
    bucket.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("logging.s3.amazonaws.com")],  # pyright: ignore[reportArgumentType] - jsii types
            actions=["s3:PutObject"],
            resources=[bucket.arn_for_objects("*")],
            conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}},
        )
    )
    return bucket


def _removal(protected: bool) -> cdk.RemovalPolicy:
    return cdk.RemovalPolicy.RETAIN if protected else cdk.RemovalPolicy.DESTROY
