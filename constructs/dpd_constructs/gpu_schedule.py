"""Nights without GPU nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from dpd.sizing.capacity import scheduled_groups
from dpd.spec.cost_control import RETRY_HOURS, Schedule
from dpd.spec.environment import Environment
from dpd_constructs.gpu_schedule_alarms import GpuScheduleAlarms, GpuScheduleAlarmsProps
from dpd_constructs.gpu_schedule_queues import GpuScheduleQueues
from dpd_constructs.keys import volume_grants

_HANDLER: Final = Path(__file__).parent / "handlers/gpu_schedule"
# The scheduler's own word for the time at which a wish was due (user guide, page
# managing-schedule-context-attributes).
_DUE: Final = "<aws.scheduler.scheduled-time>"


@dataclass(frozen=True)
class GpuScheduleProps:
    """Say which cluster is scaled, and when."""

    environment: Environment
    schedule: Schedule
    cluster: sagemaker.CfnCluster
    eks_cluster_arn: str
    execution_role: iam.Role
    volumes_key: kms.IKey | None


class GpuSchedule(Construct):
    """Scale the GPU groups to zero and back; those with a training plan stay, since they are paid for.

    CloudFormation keeps the configured counts in its template. A deployment that changes the cluster
    sets them again, at night as well; one that does not leaves the cluster as it is.
    """

    def __init__(self, scope: Construct, construct_id: str, props: GpuScheduleProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self._queues = GpuScheduleQueues(self, "Queues")
        function = self._function()
        function.add_event_source_mapping(
            "Wishes", event_source_arn=self._queues.wishes.queue_arn, batch_size=1
        )
        caller = self._caller()
        counts = {name: group.count for name, group in scheduled_groups(props.environment).items()}
        self._at("Down", props.schedule.down, dict.fromkeys(counts, 0), caller)
        self._at("Up", props.schedule.up, counts, caller)
        alarms = GpuScheduleAlarmsProps(
            function, self._queues, props.environment.budget, props.environment.region
        )
        GpuScheduleAlarms(self, "Alarms", alarms)

    def _function(self) -> lambda_.Function:
        log_group = logs.LogGroup(self, "Log")
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),  # pyright: ignore[reportArgumentType] - jsii types
        )
        log_group.grant_write(role)
        for statement in self._statements():
            role.add_to_policy(statement)
        return lambda_.Function(
            self,
            "Function",
            role=role,  # pyright: ignore[reportArgumentType] - jsii types
            code=lambda_.Code.from_asset(str(_HANDLER), exclude=["__pycache__"]),
            handler="handler.handle",
            runtime=lambda_.Runtime.PYTHON_3_14,
            timeout=cdk.Duration.minutes(1),
            log_group=log_group,
        )

    def _statements(self) -> list[iam.PolicyStatement]:
        props = self._props
        return [
            iam.PolicyStatement(
                actions=["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
                resources=[self._queues.wishes.queue_arn],
            ),
            iam.PolicyStatement(
                actions=["sagemaker:DescribeCluster", "sagemaker:UpdateCluster"],
                resources=[props.cluster.attr_cluster_arn],
            ),
            # SageMaker looks these up in the caller's name (developer guide, page
            # sagemaker-hyperpod-prerequisites-iam).
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[props.eks_cluster_arn]),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[props.execution_role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            ),
            *volume_grants(props.volumes_key),
        ]

    def _caller(self) -> iam.Role:
        role = iam.Role(
            self,
            "CallerRole",
            assumed_by=iam.ServicePrincipal(  # pyright: ignore[reportArgumentType] - jsii types
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
        )
        queues = [self._queues.wishes.queue_arn, self._queues.undelivered.queue_arn]
        role.add_to_policy(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=queues))
        return role

    def _at(self, construct_id: str, expression: str, counts: Mapping[str, int], caller: iam.Role) -> None:
        wish = {
            "Due": _DUE,
            "ClusterName": self._props.cluster.attr_cluster_arn,
            "Counts": counts,
            "Fields": self._fields(),
        }
        scheduler.CfnSchedule(
            self,
            construct_id,
            description=f"GPU nodes of {self._props.environment.name}: {json.dumps(counts)}",
            schedule_expression=expression,
            schedule_expression_timezone=self._props.schedule.time_zone,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self._queues.wishes.queue_arn,
                role_arn=caller.role_arn,
                input=Stack.of(self).to_json_string(wish),
                sqs_parameters=scheduler.CfnSchedule.SqsParametersProperty(message_group_id="wishes"),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self._queues.undelivered.queue_arn
                ),
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=RETRY_HOURS * 3600
                ),
            ),
        )

    def _fields(self) -> list[str]:
        """Return what the template says about any group, as dotted paths: what an update must not lose."""
        groups = cast("list[dict[str, Any]]", Stack.of(self).resolve(self._props.cluster.instance_groups))
        return sorted(set(_paths(groups)))


def _paths(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[str]:
    """Walk lists and mappings down to values, functions of CloudFormation, and what has keys of its own."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _paths(item, prefix)
        return
    inside = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    opaque = prefix[-1:] == ("labels",) or any(key == "Ref" or key.startswith("Fn::") for key in inside)
    if opaque or not inside:
        yield ".".join(prefix)
        return
    for key, item in inside.items():
        yield from _paths(item, (*prefix, key))
