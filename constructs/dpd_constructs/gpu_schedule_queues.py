"""The queues between a schedule and what carries it out."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from dpd.spec.cost_control import RETRY_HOURS

_RETRY_MINUTES: Final = 15


class GpuScheduleQueues(Construct):
    """Bring each wish again every quarter of an hour, until it is met or RETRY_HOURS have passed.

    Attributes: ``wishes``, in which a wish waits for the one before it, so that a late `down` never
    follows an `up`; ``given_up``, those that were tried in vain; ``undelivered``, those that the scheduler
    could not send, a standard queue since it takes no other (user guide, page configuring-schedule-dlq).
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.given_up = self._queue("GivenUp", fifo=True)
        self.undelivered = self._queue("Undelivered")
        self.wishes = self._queue(
            "Wishes",
            fifo=True,
            # The scheduler gives messages no id of their own.
            content_based_deduplication=True,
            visibility_timeout=cdk.Duration.minutes(_RETRY_MINUTES),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.given_up,  # pyright: ignore[reportArgumentType] - jsii types
                max_receive_count=RETRY_HOURS * 60 // _RETRY_MINUTES,
            ),
        )

    def _queue(self, construct_id: str, **options: object) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
            **options,  # pyright: ignore[reportArgumentType] - options of the same call
        )
