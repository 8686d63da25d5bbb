"""Private buckets: nothing public, TLS only, versioned, encrypted."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

_NONCURRENT_DAYS: Final = 30
"""Time in which an overwritten or deleted object can be brought back."""
_ABORT_UPLOAD_DAYS: Final = 7
"""Parts of an upload that never finished cost money and are in no listing."""


def private_bucket(scope: Construct, construct_id: str, *, bucket_name: str, protected: bool) -> s3.Bucket:
    """Make a bucket; ``protected`` keeps it when the stack goes.

    Without ``protected`` the stack deletes the bucket, but only an empty one: CDK's automatic
    emptying is one more Lambda function with the right to delete every object, so `dpd destroy`
    empties it instead.
    """
    return s3.Bucket(
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
                noncurrent_version_expiration=cdk.Duration.days(_NONCURRENT_DAYS),
                abort_incomplete_multipart_upload_after=cdk.Duration.days(_ABORT_UPLOAD_DAYS),
            )
        ],
        removal_policy=cdk.RemovalPolicy.RETAIN if protected else cdk.RemovalPolicy.DESTROY,
    )
