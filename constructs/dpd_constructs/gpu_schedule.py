"""Nights without GPU nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from dpd.sizing.capacity import scheduled_groups
from dpd.spec.cost_control import Schedule
from dpd.spec.environment import Environment
from dpd_constructs.keys import volume_grants

_HANDLER: Final = Path(__file__).parent / "handlers/gpu_schedule"
# A cluster that is being updated refuses the call. Lambda tries again after one minute and after two;
# an hour later the alarm has long been seen.
_EVENT_AGE: Final = cdk.Duration.hours(1)


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
        function = self._function()
        caller = iam.Role(
            self,
            "CallerRole",
            assumed_by=iam.ServicePrincipal(  # pyright: ignore[reportArgumentType] - jsii types
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
        )
        caller.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])
        )
        counts = {name: group.count for name, group in scheduled_groups(props.environment).items()}
        self._at("Down", props.schedule.down, dict.fromkeys(counts, 0), function, caller)
        self._at("Up", props.schedule.up, counts, function, caller)
        self._alarm(function)

    def _function(self) -> lambda_.Function:
        log_group = logs.LogGroup(self, "Log")
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),  # pyright: ignore[reportArgumentType] - jsii types
        )
        log_group.grant_write(role)
        props = self._props
        statements = [
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
        for statement in statements:
            role.add_to_policy(statement)
        return lambda_.Function(
            self,
            "Function",
            role=role,  # pyright: ignore[reportArgumentType] - jsii types
            code=lambda_.Code.from_asset(str(_HANDLER), exclude=["__pycache__"]),
            handler="handler.handle",
            runtime=lambda_.Runtime.PYTHON_3_14,
            timeout=cdk.Duration.minutes(1),
            max_event_age=_EVENT_AGE,
            log_group=log_group,
        )

    def _at(
        self,
        construct_id: str,
        expression: str,
        counts: Mapping[str, int],
        function: lambda_.Function,
        caller: iam.Role,
    ) -> None:
        event = {
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
                arn=function.function_arn,
                role_arn=caller.role_arn,
                input=Stack.of(self).to_json_string(event),
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=int(_EVENT_AGE.to_seconds()), maximum_retry_attempts=5
                ),
            ),
        )

    def _fields(self) -> list[str]:
        """Return what the template says about any group: what an update must not lose."""
        groups = cast("list[dict[str, Any]]", Stack.of(self).resolve(self._props.cluster.instance_groups))
        return sorted({key[:1].upper() + key[1:] for group in groups for key in group})

    def _alarm(self, function: lambda_.Function) -> None:
        """Tell that nodes stayed on, or away; the budget's topic hears it where there is one."""
        budget = self._props.environment.budget
        # L1: the L2 alarm's actions import half of CDK for one ARN.
        cloudwatch.CfnAlarm(
            self,
            "Failed",
            alarm_description="The schedule could not scale the GPU groups; the function's log says why",
            namespace="AWS/Lambda",
            metric_name="Errors",
            dimensions=[
                cloudwatch.CfnAlarm.DimensionProperty(name="FunctionName", value=function.function_name)
            ],
            statistic="Sum",
            period=300,
            threshold=1,
            evaluation_periods=1,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=[budget.sns_topic_arn] if budget and budget.sns_topic_arn else None,
        )
