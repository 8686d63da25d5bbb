"""The security group that comes with every VPC."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import custom_resources as cr
from constructs import Construct

from dpd_constructs.call_log import call_log


class ClosedDefaultSecurityGroup(Construct):
    """Take away the rules that the group is born with: all traffic among members, and all out.

    Nothing uses the group, until somebody makes an instance without naming one. CloudFormation has
    no property for it, hence two API calls.
    """

    def __init__(self, scope: Construct, construct_id: str, *, group_id: str) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        self._group_id = group_id
        self._arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:security-group/{group_id}"
        self._log = call_log(self)
        everything: dict[str, Any] = {"IpProtocol": "-1"}
        among_members = {**everything, "UserIdGroupPairs": [{"GroupId": group_id}]}
        self._revoke("Ingress", among_members)
        self._revoke("Egress", {**everything, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]})

    def _revoke(self, direction: str, rule: dict[str, Any]) -> None:
        action = f"revokeSecurityGroup{direction}"
        cr.AwsCustomResource(
            self,
            direction,
            resource_type="Custom::ClosedSecurityGroup",
            on_create=cr.AwsSdkCall(
                service="EC2",
                action=action,
                parameters={"GroupId": self._group_id, "IpPermissions": [rule]},
                physical_resource_id=cr.PhysicalResourceId.of(f"{self._group_id}-{direction}"),
                # Somebody was faster, such as AWS Config.
                ignore_error_codes_matching="InvalidPermission.NotFound",
            ),
            install_latest_aws_sdk=False,
            log_group=self._log,
            policy=cr.AwsCustomResourcePolicy.from_statements(
                [
                    iam.PolicyStatement(
                        actions=[f"ec2:RevokeSecurityGroup{direction}"],
                        resources=[self._arn],
                    )
                ]
            ),
        )
