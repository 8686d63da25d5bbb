"""A log group that a service of AWS names and makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import custom_resources as cr
from constructs import Construct

from dpd_constructs.call_log import call_log
from dpd_constructs.reasons import wildcard

_SHORT_DAYS: Final = 30
_PROTECTED_DAYS: Final = 365


class ServiceLogGroup(Construct):
    """Give the log group a retention and our key, whether it exists already or not.

    The service keeps logs forever otherwise. A LogGroup resource would be simpler and fails: it refuses
    a group that exists. One does, since a protected environment keeps it, HyperPod makes its own with the
    cluster, and EKS writes its last lines after the group's deletion, which makes it anew.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey | None, protected: bool
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        self._arn = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{name}"
        self._id = cr.PhysicalResourceId.of(name)
        self._log = call_log(self)
        group = {"logGroupName": name}
        days = _PROTECTED_DAYS if protected else _SHORT_DAYS
        make = self._call("createLogGroup", group, ignore="ResourceAlreadyExistsException")
        remove = self._call("deleteLogGroup", group, ignore="ResourceNotFoundException")
        rights = ["logs:CreateLogGroup", *([] if protected else ["logs:DeleteLogGroup"])]
        made = self._resource("Group", make, rights, on_delete=None if protected else remove)
        keep = self._call("putRetentionPolicy", {**group, "retentionInDays": days})
        self._resource("Retention", keep, ["logs:PutRetentionPolicy"]).node.add_dependency(made)
        if key is not None:
            encrypt = self._call("associateKmsKey", {**group, "kmsKeyId": key.key_arn})
            self._resource("Key", encrypt, ["logs:AssociateKmsKey"]).node.add_dependency(made)

    def _call(self, action: str, parameters: dict[str, Any], *, ignore: str | None = None) -> cr.AwsSdkCall:
        return cr.AwsSdkCall(
            service="CloudWatchLogs",
            action=action,
            parameters=parameters,
            physical_resource_id=self._id,
            ignore_error_codes_matching=ignore,
        )

    def _resource(
        self,
        construct_id: str,
        call: cr.AwsSdkCall,
        actions: Sequence[str],
        *,
        on_delete: cr.AwsSdkCall | None = None,
    ) -> cr.AwsCustomResource:
        rights = wildcard(
            "ServiceLogGroup",
            "CloudWatch Logs compares some actions with the group's ARN and others with `:*` behind it.",
            actions=actions,
            resources=[self._arn, f"{self._arn}:*"],
        )
        return cr.AwsCustomResource(
            self,
            construct_id,
            resource_type="Custom::ServiceLogGroup",
            on_create=call,
            on_update=call,
            on_delete=on_delete,
            install_latest_aws_sdk=False,
            log_group=self._log,
            policy=cr.AwsCustomResourcePolicy.from_statements([rights]),
        )
