"""Hold a deployment until something outside CloudFormation has happened, and fail with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from dpd_constructs.reasons import wildcard

_HANDLERS: Final = Path(__file__).parent / "handlers"
# CloudFormation itself gives a custom resource up after an hour (user guide, page
# aws-resource-cloudformation-customresource, ServiceTimeout).
_LIMIT_S: Final = 3600
# Time in which the handler can still tell its own reason before the framework's opaque one.
_REASON_S: Final = 300


@dataclass(frozen=True)
class InsideVpc:
    """Say where a handler runs that asks something which only the VPC can reach."""

    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    security_group: ec2.ISecurityGroup


@dataclass(frozen=True)
class WaiterProps:
    """Say who waits, with which rights, and how long.

    ``handler`` is a module below handlers/, such as nodes_ready.handler, that has ``on_event`` and
    ``is_complete`` and must raise when its ``TimeoutSeconds`` have passed. ``statements`` are for checking,
    ``starting`` for what ``on_event`` starts. ``timeout_s`` is 3300 at most.
    """

    handler: str
    statements: Sequence[iam.PolicyStatement]
    timeout_s: int
    starting: Sequence[iam.PolicyStatement] = ()
    query_interval_s: int = 30
    inside: InsideVpc | None = None


class Waiter(Construct):
    """Poll conditions with the provider framework.

    Attributes: ``checker``, the role of the handler that checks a condition.
    """

    def __init__(self, scope: Construct, construct_id: str, props: WaiterProps) -> None:
        super().__init__(scope, construct_id)
        if props.timeout_s > _LIMIT_S - _REASON_S:
            raise ValueError(
                f"{self.node.path}: timeout_s is {props.timeout_s}; CloudFormation waits {_LIMIT_S} s, so"
                f" {_LIMIT_S - _REASON_S} is the most that leaves time to report the reason"
            )
        self._props = props
        self._log_group = logs.LogGroup(self, "Logs")
        self.checker: iam.Role = self._role("IsComplete", props.statements)
        if props.inside:
            self.checker.add_to_policy(_interfaces())
        self._provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=self._starter(),  # pyright: ignore[reportArgumentType] - jsii types
            is_complete_handler=self._poller(props.inside),  # pyright: ignore[reportArgumentType] - jsii types
            query_interval=cdk.Duration.seconds(props.query_interval_s),
            total_timeout=cdk.Duration.seconds(props.timeout_s + _REASON_S),
            log_group=self._log_group,
        )

    def wait(
        self, scope: Construct, construct_id: str, *, resource_type: str, properties: Mapping[str, object]
    ) -> cdk.CustomResource:
        """Make what waits for one condition; a change of ``properties`` waits again.

        What depends on the resource, and not on this construct, holds up no function.
        """
        return cdk.CustomResource(
            scope,
            construct_id,
            resource_type=resource_type,
            service_token=self._provider.service_token,
            properties={**properties, "TimeoutSeconds": self._props.timeout_s},
        )

    def _starter(self) -> lambda_.Function:
        return self._function("OnEvent", "on_event", self._role("OnEvent", self._props.starting))

    def _poller(self, inside: InsideVpc | None) -> lambda_.Function:
        placed: dict[str, Any] = {}
        if inside is not None:
            placed["vpc"] = inside.vpc
            placed["vpc_subnets"] = ec2.SubnetSelection(subnets=inside.subnets)
            placed["security_groups"] = [inside.security_group]
        return self._function("IsComplete", "is_complete", self.checker, **placed)

    def _role(self, construct_id: str, statements: Sequence[iam.PolicyStatement]) -> iam.Role:
        # The role that CDK would make may write to every log group of the account.
        role = iam.Role(
            self,
            f"{construct_id}Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),  # pyright: ignore[reportArgumentType] - jsii types
        )
        self._log_group.grant_write(role)
        for statement in statements:
            role.add_to_policy(statement)
        return role

    def _function(self, construct_id: str, entry: str, role: iam.Role, **options: Any) -> lambda_.Function:
        folder = self._props.handler.partition(".")[0]
        return lambda_.Function(
            self,
            construct_id,
            role=role,  # pyright: ignore[reportArgumentType] - jsii types
            # The folder and not what is in it, so that its modules can import each other.
            code=lambda_.Code.from_asset(
                str(_HANDLERS),
                exclude=["*", f"!/{folder}/", f"!/{folder}/*.py"],
                ignore_mode=cdk.IgnoreMode.GIT,
            ),
            handler=f"{self._props.handler}.{entry}",
            runtime=lambda_.Runtime.PYTHON_3_14,
            timeout=cdk.Duration.minutes(1),
            log_group=self._log_group,
            **options,
        )


def _interfaces() -> iam.PolicyStatement:
    return wildcard(
        "FunctionInterfaces",
        "Lambda makes the interfaces of a function in a VPC, which have no id before.",
        actions=[
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:UnassignPrivateIpAddresses",
        ],
        # The key is there when the code of a function calls, and not when Lambda does (developer guide,
        # page permissions-source-function-arn).
        conditions={"Null": {"lambda:SourceFunctionArn": "true"}},
    )
