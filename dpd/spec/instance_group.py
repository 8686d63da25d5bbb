"""The schema of one HyperPod instance group, and what all groups of a cluster have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dpd.closed_model import ClosedModel
from dpd.quantity import Whole
from dpd.spec.cron import readable

# Local zones have ids such as usw2-lax1-az1, so more than one middle part is allowed (report P-15).
ZoneId = Annotated[str, Field(pattern=r"^[a-z]{2,}[0-9]+(-[a-z0-9]+)*-az[0-9]+$", examples=["usw2-az1"])]
TrainingPlanArn = Annotated[
    str, Field(pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]+$")
]
# What the registry schema of AWS::SageMaker::Cluster admits: a fixed minute and hour, and no `*` as the
# day of the month. Times are UTC.
MaintenanceCron = Annotated[
    str,
    Field(
        pattern=r"^cron\(([0-5]?[0-9]) ([01]?[0-9]|2[0-3]) (\?|0?[1-9]|[12][0-9]|3[01])"
        r" (\*|\*/([1-9]|1[0-2])|0?[1-9]|1[0-2])"
        r" (\?|L|MON|TUE|WED|THU|FRI|SAT|SUN|[1-7](L|#[1-5])?) (\*|20[2-9][0-9])\)$",
        examples=["cron(0 3 ? * SUN *)"],
    ),
    AfterValidator(readable),
]
# Patterns of the API's ClusterKubernetesTaint.
TaintKey = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        examples=["hyperpod-dpd/gpu"],
    ),
]
TaintValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]


class Taint(ClosedModel):
    """Keep pods off the nodes of a group."""

    key: TaintKey
    value: TaintValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "PreferNoSchedule"


class Group(ClosedModel):
    """Describe one HyperPod instance group."""

    instance_type: Annotated[str, Field(examples=["ml.p5.48xlarge"])]
    fallback_instance_types: Annotated[tuple[str, ...], Field(max_length=19)] = ()
    """Types to take, in this order, where `instance_type` has no capacity; of the same GPU and EFA counts."""
    count: Annotated[Whole, Field(ge=0, le=6758, examples=[1])]
    """Nodes; 0 deploys everything else and adds nodes later."""
    capacity: Literal["on_demand", "spot"] = "on_demand"
    """`spot`: cheaper nodes that AWS takes back at any time."""
    training_plan_arn: TrainingPlanArn | None = None
    training_plan_zone_id: ZoneId | None = None
    """Zone that the training plan's offering named, so that it can be compared before deploy."""
    zone_id: ZoneId | None = None
    """Zone of this group; default: `gpu_zone_id`. Only the system group may differ."""
    secondary_volume_gb: Annotated[Whole, Field(ge=1, le=16384)] | None = None
    """Further EBS volume of each node, mounted at /opt/sagemaker; default: none."""
    labels: dict[str, str] = {}
    """Further node labels."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=50)] = ()
    """Node taints."""

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Return every type that a node of the group may have, the preferred one first."""
        return (self.instance_type, *self.fallback_instance_types)


class Groups(ClosedModel):
    """Hold the three instance groups of a cluster."""

    system: Group
    prefill: Group
    decode: Group


class Maintenance(ClosedModel):
    """Let HyperPod move nodes to its newest image in a window, a few nodes at a time."""

    schedule: MaintenanceCron
    """When it looks for a new image, in UTC: minute, hour, day of month, month, day of week, year."""
    batch_nodes: Annotated[Whole, Field(ge=1, le=6758)] = 1
    """Nodes of one group that are replaced at the same time."""
    wait_s: Annotated[Whole, Field(ge=0, le=3600)] = 600
    """Time between two batches, in which `rollback_alarms` are watched."""
    rollback_alarms: Annotated[tuple[str, ...], Field(max_length=10)] = ()
    """CloudWatch alarms that take the update back."""
