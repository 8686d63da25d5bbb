"""The schema of what keeps the bill of an environment in bounds: a budget, and nights without GPUs."""

from __future__ import annotations

from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from dpd.closed_model import ClosedModel
from dpd.quantity import Real
from dpd.spec.cron import readable

RETRY_HOURS: Final = 6
"""How long a schedule keeps trying where the cluster is busy; ours, half of a usual night."""


def _exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _known_zone(name: str) -> str:
    # A machine without the database knows no zone at all; EventBridge then checks the name.
    if not _exists(name) and _exists("UTC"):
        raise ValueError("wants a name of the IANA time zone database, such as Europe/Berlin")
    return name


Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=50)]
SnsTopicArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$")]
TimeZone = Annotated[str, AfterValidator(_known_zone)]
# Six fields, one of the two days being `?` (EventBridge Scheduler user guide, page schedule-types).
_FIELD = r"[A-Z0-9,*/L#W-]+"
ScheduleCron = Annotated[
    str,
    Field(
        pattern=rf"^cron\({_FIELD} {_FIELD} (\? {_FIELD} {_FIELD}|{_FIELD} {_FIELD} \?) {_FIELD}\)$",
        examples=["cron(0 20 ? * MON-FRI *)"],
    ),
    AfterValidator(readable),
]


class Budget(ClosedModel):
    """Tell somebody when an environment costs more than planned."""

    monthly_usd: Annotated[Real, Field(gt=0, examples=[5000])]
    emails: Annotated[tuple[Email, ...], Field(max_length=10)] = ()
    """Who is told."""
    sns_topic_arn: SnsTopicArn | None = None
    """Topic that is told; its policy lets budgets.amazonaws.com publish (and cloudwatch, for a schedule)."""

    @model_validator(mode="after")
    def _somebody_is_told(self) -> Self:
        if not self.emails and self.sns_topic_arn is None:
            raise ValueError("wants emails or sns_topic_arn: an alarm that nobody hears is none")
        return self

    def alarm_topic_arn(self, region: str) -> str | None:
        """Return the topic where alarms of ``region`` can reach it: CloudWatch tells none elsewhere."""
        arn = self.sns_topic_arn
        return arn if arn is not None and arn.split(":")[3] == region else None


class Schedule(ClosedModel):
    """Scale the GPU groups to zero and back at fixed times."""

    down: ScheduleCron
    """When the GPU groups go to zero nodes: minute, hour, day of month, month, day of week, year."""
    up: ScheduleCron
    """When they come back to the configured counts."""
    time_zone: TimeZone = "UTC"
    """Time zone of both, with its daylight saving time."""
