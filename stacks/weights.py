"""The stack of the bucket that holds model weights."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd.spec.environment import Environment
from dpd.spec.names import weights_bucket_name
from dpd_constructs.buckets import private_bucket
from dpd_constructs.empty_stack import keep_deployable
from stacks.security import SecurityStack


class WeightsStack(cdk.Stack):
    """Hold the weights of one environment in ``bucket``, apart from everything that is rebuilt."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        security_stack: SecurityStack,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.bucket: s3.IBucket = (
            self._existing(environment, environment.weights.bucket)
            if environment.weights.bucket
            else private_bucket(
                self,
                "Weights",
                bucket_name=weights_bucket_name(environment.name, self.account, environment.region),
                standard=security_stack.buckets,
            )
        )
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name)

    def _existing(self, environment: Environment, name: str) -> s3.IBucket:
        keep_deployable(self)
        key_arn = environment.weights.kms_key_arn
        key = kms.Key.from_key_arn(self, "WeightsKey", key_arn) if key_arn else None
        return s3.Bucket.from_bucket_attributes(self, "Weights", bucket_name=name, encryption_key=key)
