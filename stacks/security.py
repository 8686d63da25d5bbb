"""The stack of what guards the others: keys, and the bucket of access logs."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.spec.environment import Environment
from dpd.spec.names import access_log_bucket_name
from dpd_constructs.buckets import BucketStandard, access_log_bucket
from dpd_constructs.empty_stack import keep_deployable
from dpd_constructs.keys import customer_keys


class SecurityStack(cdk.Stack):
    """Hold the keys of one environment in ``keys``, and what its buckets share in ``buckets``.

    A stack of its own, since keys must exist before everything that they encrypt, and outlive it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, **stack: Any
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.keys = customer_keys(self, environment)
        if self.keys.buckets:
            # Whoever uploads weights needs it.
            cdk.CfnOutput(self, "BucketsKeyArn", value=self.keys.buckets.key_arn)
        self.buckets = BucketStandard(
            self._access_logs(environment), self.keys.buckets, environment.protected
        )

    def _access_logs(self, environment: Environment) -> str:
        """Return the bucket of access logs; where every bucket exists already, nobody writes to it."""
        name = access_log_bucket_name(environment.name, self.account, environment.region)
        if not environment.makes_buckets:
            keep_deployable(self)
            return name
        return access_log_bucket(
            self, "AccessLogs", bucket_name=name, protected=environment.protected
        ).bucket_name
