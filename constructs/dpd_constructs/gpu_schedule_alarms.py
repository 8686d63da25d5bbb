"""Who hears of a schedule that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from dpd.spec.cost_control import RETRY_HOURS, Budget
from dpd_constructs.gpu_schedule_queues import GpuScheduleQueues

# Longer than the time between two tries, so that a row of failures is one alarm.
_PERIOD_S: Final = 3600


@dataclass(frozen=True)
class GpuScheduleAlarmsProps:
    """Say what can fail, and who is told: the readers of the budget in ``region``."""

    function: lambda_.Function
    queues: GpuScheduleQueues
    budget: Budget | None
    region: str


class GpuScheduleAlarms(Construct):
    """Tell of a try that failed, of a wish that was given up, and of one that was never delivered.

    Mail goes through a topic that is made here; CST005 warns where nobody is told.
    """

    def __init__(self, scope: Construct, construct_id: str, props: GpuScheduleAlarmsProps) -> None:
        super().__init__(scope, construct_id)
        self._topic_arns = self._listeners(props.budget, props.region)
        self._alarm(
            "Failed",
            "The GPU groups could not be scaled yet, and are tried again; the function's log says why",
            ("AWS/Lambda", "Errors", "FunctionName", props.function.function_name),
        )
        given_up = f"The GPU groups were not scaled within {RETRY_HOURS} hours, and nothing tries any more"
        self._filled("GivenUp", given_up, props.queues.given_up)
        undelivered = "The scheduler could not send a wish, and nothing was scaled; the message says why"
        self._filled("Undelivered", undelivered, props.queues.undelivered)

    def _listeners(self, budget: Budget | None, region: str) -> list[str]:
        if budget is None:
            return []
        own = [self._mail(budget).topic_arn] if budget.emails else []
        topic_arn = budget.alarm_topic_arn(region)
        return [*own, topic_arn] if topic_arn else own

    def _mail(self, budget: Budget) -> sns.Topic:
        topic = sns.Topic(self, "Mail", enforce_ssl=True)
        # A policy of ours takes the place of the one that lets the account's alarms publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],  # pyright: ignore[reportArgumentType] - jsii types
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        for email in budget.emails:
            sns.CfnSubscription(
                self, f"To-{email}", protocol="email", endpoint=email, topic_arn=topic.topic_arn
            )
        return topic

    def _filled(self, construct_id: str, description: str, queue: sqs.Queue) -> None:
        metric = ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue.queue_name)
        self._alarm(construct_id, description, metric)

    def _alarm(self, construct_id: str, description: str, metric: tuple[str, str, str, str]) -> None:
        """Sound at the first count of a metric: namespace, name, and its one dimension with its value."""
        namespace, name, dimension, value = metric
        # L1: the L2 alarm's actions import half of CDK for one ARN.
        cloudwatch.CfnAlarm(
            self,
            construct_id,
            alarm_description=description,
            namespace=namespace,
            metric_name=name,
            dimensions=[cloudwatch.CfnAlarm.DimensionProperty(name=dimension, value=value)],
            statistic="Sum",
            period=_PERIOD_S,
            threshold=1,
            evaluation_periods=1,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=self._topic_arns or None,
        )
