"""The stack of the bucket that holds model weights."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.spec.environment import Environment
from dpd.spec.names import weights_bucket_name
from dpd_constructs.buckets import private_bucket


class WeightsStack(cdk.Stack):
    """Hold the weights of one environment in ``bucket``, apart from everything that is rebuilt."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, **stack: Any
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.bucket = private_bucket(
            self,
            "Weights",
            bucket_name=weights_bucket_name(environment.name, self.account, environment.region),
            protected=environment.protected,
        )
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name)
