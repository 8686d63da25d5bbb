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
    """Say what is waited for.

    ``handler`` names the folder under handlers/ whose ``handler.py`` has ``on_event`` and
    ``is_complete``; the handler gets ``properties`` with ``TimeoutSeconds`` added, and must raise
    when that has passed. ``timeout_s`` is 3300 at most.
    """

    handler: str
    resource_type: str
    properties: Mapping[str, object]
    statements: Sequence[iam.PolicyStatement]
    timeout_s: int
    query_interval_s: int = 30
    inside: InsideVpc | None = None


class Waiter(Construct):
    """Poll a condition with the provider framework; other resources depend on this construct.

    Attributes: ``checker``, the role of the handler that checks the condition; ``resource``, what
    waits, for a dependency that shall not hold up the functions.
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
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=self._starter(),  # pyright: ignore[reportArgumentType] - jsii types
            is_complete_handler=self._poller(props.inside),  # pyright: ignore[reportArgumentType] - jsii types
            query_interval=cdk.Duration.seconds(props.query_interval_s),
            total_timeout=cdk.Duration.seconds(props.timeout_s + _REASON_S),
            log_group=self._log_group,
        )
        self.resource: cdk.CustomResource = cdk.CustomResource(
            self,
            "Resource",
            resource_type=props.resource_type,
            service_token=provider.service_token,
            properties={**props.properties, "TimeoutSeconds": props.timeout_s},
        )

    def _starter(self) -> lambda_.Function:
        role = self._role("OnEvent", self._props.statements)
        return self._function("OnEvent", "handler.on_event", role)

    def _poller(self, inside: InsideVpc | None) -> lambda_.Function:
        placed: dict[str, Any] = {}
        if inside is not None:
            placed["vpc"] = inside.vpc
            placed["vpc_subnets"] = ec2.SubnetSelection(subnets=inside.subnets)
            placed["security_groups"] = [inside.security_group]
        return self._function("IsComplete", "handler.is_complete", self.checker, **placed)

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

    def _function(self, construct_id: str, handler: str, role: iam.Role, **options: Any) -> lambda_.Function:
        return lambda_.Function(
            self,
            construct_id,
            role=role,  # pyright: ignore[reportArgumentType] - jsii types
            code=lambda_.Code.from_asset(str(_HANDLERS / self._props.handler), exclude=["__pycache__"]),
            handler=handler,
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
    )
