"""Hold a deployment until something outside CloudFormation has happened, and fail with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

_HANDLERS: Final = Path(__file__).parent / "handlers"
# CloudFormation itself gives a custom resource up after an hour (user guide, page
# aws-resource-cloudformation-customresource, ServiceTimeout).
_LIMIT_S: Final = 3600
# Time in which the handler can still tell its own reason before the framework's opaque one.
_REASON_S: Final = 300


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


class Waiter(Construct):
    """Poll a condition with the provider framework; other resources depend on this construct."""

    def __init__(self, scope: Construct, construct_id: str, props: WaiterProps) -> None:
        super().__init__(scope, construct_id)
        if props.timeout_s > _LIMIT_S - _REASON_S:
            raise ValueError(
                f"{self.node.path}: timeout_s is {props.timeout_s}; CloudFormation waits {_LIMIT_S} s, so"
                f" {_LIMIT_S - _REASON_S} is the most that leaves time to report the reason"
            )
        self._props = props
        self._log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=self._function("OnEvent", "handler.on_event"),  # pyright: ignore[reportArgumentType] - jsii types
            is_complete_handler=self._function("IsComplete", "handler.is_complete"),  # pyright: ignore[reportArgumentType] - jsii types
            query_interval=cdk.Duration.seconds(props.query_interval_s),
            total_timeout=cdk.Duration.seconds(props.timeout_s + _REASON_S),
            log_group=self._log_group,
        )
        cdk.CustomResource(
            self,
            "Resource",
            resource_type=props.resource_type,
            service_token=provider.service_token,
            properties={**props.properties, "TimeoutSeconds": props.timeout_s},
        )

    def _function(self, construct_id: str, handler: str) -> lambda_.Function:
        function = lambda_.Function(
            self,
            construct_id,
            code=lambda_.Code.from_asset(str(_HANDLERS / self._props.handler), exclude=["__pycache__"]),
            handler=handler,
            runtime=lambda_.Runtime.PYTHON_3_13,
            timeout=cdk.Duration.minutes(1),
            log_group=self._log_group,
        )
        for statement in self._props.statements:
            function.add_to_role_policy(statement)
        return function
