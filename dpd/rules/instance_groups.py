"""CAP: options of one instance group that exclude each other, or that its pods cannot live with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpd.facts import InstanceFact
from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.sizing.capacity import groups
from dpd.spec.environment import Environment
from dpd.spec.instance_group import Group

_CAPACITY = "docs.aws.amazon.com: API_ClusterCapacityRequirements"
_GPU_GROUPS = ("prefill", "decode")


@environment_rule(
    "CAP009",
    Severity.ERROR,
    Doc(
        title="Spot nodes in a protected environment",
        symptom="Nodes, and the requests on them, disappear with two minutes' notice.",
        cause="AWS takes Spot capacity back whenever it needs it.",
        fix="Use on-demand capacity or a training plan where an environment is protected.",
        source=_CAPACITY,
        bad="protected: true\nhyperpod: {groups: {decode: {capacity: spot}}}",
        good="protected: false\nhyperpod: {groups: {decode: {capacity: spot}}}",
    ),
)
def spot_in_protected(context: EnvironmentContext) -> Iterable[Hit]:
    """Report every Spot group of a protected environment."""
    if context.environment.protected:
        for name in _spot_groups(context.environment):
            yield _spot_hit(name, "a protected environment takes no Spot capacity")


@environment_rule(
    "CAP010",
    Severity.ERROR,
    Doc(
        title="Spot together with a training plan",
        symptom="The service refuses the group.",
        cause="A training plan is reserved capacity; Spot is what nobody has reserved.",
        fix="Keep one of the two.",
        source=_CAPACITY,
        bad="groups: {decode: {capacity: spot, training_plan_arn: arn:aws:sagemaker:...}}",
        good="groups: {decode: {training_plan_arn: arn:aws:sagemaker:...}}",
    ),
)
def spot_with_plan(context: EnvironmentContext) -> Iterable[Hit]:
    """Report Spot groups that name a training plan."""
    for name in _spot_groups(context.environment):
        if groups(context.environment)[name].training_plan_arn:
            yield _spot_hit(name, "a training plan is reserved capacity, and Spot is not")


@environment_rule(
    "CAP011",
    Severity.ERROR,
    Doc(
        title="Spot on the system group",
        symptom="Operator, load balancer controller and autoscaler go down with their nodes.",
        cause="The system group holds what keeps all other pods running.",
        fix="Use on-demand capacity there; it is a small part of the cost.",
        source=_CAPACITY,
        bad="groups: {system: {capacity: spot}}",
        good="groups: {system: {capacity: on_demand}}",
    ),
)
def spot_on_system(context: EnvironmentContext) -> Iterable[Hit]:
    """Report Spot on the CPU group."""
    if "system" in _spot_groups(context.environment):
        yield _spot_hit("system", "the system group takes no Spot capacity")


@environment_rule(
    "CAP013",
    Severity.ERROR,
    Doc(
        title="Taint that keeps its own pods away",
        symptom="Pods of workers, device plugins or add-ons stay Pending beside idle nodes.",
        cause="An endpoint with `pdSpec` has no tolerations; add-ons and plugins have none for your key.",
        fix="Use the effect PreferNoSchedule, which only makes other pods look elsewhere first.",
        source="InferenceEndpointConfig definition of the operator's chart 2.2.2",
        bad="groups: {decode: {taints: [{key: gpu, effect: NoSchedule}]}}",
        good="groups: {decode: {taints: [{key: gpu, effect: PreferNoSchedule}]}}",
    ),
)
def hard_taints(context: EnvironmentContext) -> Iterable[Hit]:
    """Report taints that refuse pods: nothing that the stacks start tolerates them."""
    for name, group in groups(context.environment).items():
        for index, taint in enumerate(group.taints):
            if taint.effect != "PreferNoSchedule":
                yield Hit(
                    path=("hyperpod", "groups", name, "taints", index, "effect"),
                    message=f"no pod that belongs on group {name} tolerates {taint.key}:{taint.effect}",
                    got=taint.effect,
                    allowed="PreferNoSchedule",
                    fix="use PreferNoSchedule",
                    owner="environment",
                )


@environment_rule(
    "CAP014",
    Severity.ERROR,
    Doc(
        title="Taints together with deep health checks",
        symptom="The service refuses the group.",
        cause="The checks taint nodes themselves while they run, and admit no taints of yours beside that.",
        fix="Take the taints away, or the checks.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-eks-resiliency-deep-health-checks",
        bad="hyperpod: {deep_health_checks: [InstanceStress], groups: {decode: {taints: [...]}}}",
        good="hyperpod: {deep_health_checks: [InstanceStress]}",
    ),
)
def taints_with_deep_checks(context: EnvironmentContext) -> Iterable[Hit]:
    """Report taints on the groups that run deep health checks: those with GPUs."""
    if not context.environment.hyperpod.deep_health_checks:
        return
    for name in _GPU_GROUPS:
        if groups(context.environment)[name].taints:
            yield Hit(
                path=("hyperpod", "groups", name, "taints"),
                message=f"group {name} runs deep health checks, which admit no taints",
                fix="remove the taints, or hyperpod.deep_health_checks",
                owner="environment",
            )


@environment_rule(
    "CAP015",
    Severity.ERROR,
    Doc(
        title="Fallback type that does not fit",
        symptom="Pods that fit one node of a group stay Pending on the next, or start with less memory.",
        cause="All pods of a role ask for the same GPUs, EFA devices, CPU and memory on every node.",
        fix="List types of the same counts and at least the same memory; the message says what differs.",
        source="docs.aws.amazon.com: API_ClusterInstanceRequirements",
        bad="groups: {decode: {instance_type: ml.p5.48xlarge, fallback_instance_types: [ml.p5en.48xlarge]}}",
        good="groups: {system: {instance_type: ml.c5.4xlarge, fallback_instance_types: [ml.m6i.4xlarge]}}",
    ),
)
def fallback_types(context: EnvironmentContext) -> Iterable[Hit]:
    """Report fallback types that are unknown, not offered, smaller, or beside a training plan."""
    instances = context.facts.instances
    region = context.facts.regions.get(context.environment.region)
    for name, group in groups(context.environment).items():
        first = instances.get(group.instance_type)
        for index, other in enumerate(group.fallback_instance_types):
            differs = list(_differences(first, instances.get(other), group, other))
            known = instances.get(other)
            # The regions' lists hold types with GPUs only.
            if known and known.gpu and region and other not in region.instance_types:
                differs.append(f"it is not offered to HyperPod in {context.environment.region}")
            if differs:
                yield Hit(
                    path=("hyperpod", "groups", name, "fallback_instance_types", index),
                    message=f"{other} cannot stand in for {group.instance_type}: {', '.join(differs)}",
                    got=other,
                    fix="remove it",
                    owner="environment",
                )


@environment_rule(
    "CAP017",
    Severity.WARNING,
    Doc(
        title="Secondary volume on nodes with local storage",
        symptom="Every GPU node pays for a volume that it does not need.",
        cause="HyperPod mounts the NVMe storage of GPU nodes where a secondary volume would be mounted.",
        fix="Set `secondary_volume_gb` on the system group alone.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-eks-prerequisites; API_ClusterEbsVolumeConfig",
        bad="groups: {decode: {secondary_volume_gb: 500}}",
        good="groups: {system: {secondary_volume_gb: 200}}",
    ),
)
def secondary_volume(context: EnvironmentContext) -> Iterable[Hit]:
    """Report secondary volumes of GPU groups."""
    for name in _GPU_GROUPS:
        size = groups(context.environment)[name].secondary_volume_gb
        if size is not None:
            yield Hit(
                path=("hyperpod", "groups", name, "secondary_volume_gb"),
                message=f"nodes of group {name} have NVMe at /opt/sagemaker, where this volume would be",
                got=size,
                fix="leave it out",
                owner="environment",
            )


def _spot_groups(environment: Environment) -> list[str]:
    return [name for name, group in groups(environment).items() if group.capacity == "spot"]


def _spot_hit(name: str, message: str) -> Hit:
    return Hit(
        path=("hyperpod", "groups", name, "capacity"),
        message=message,
        got="spot",
        allowed="on_demand",
        fix="set it to on_demand",
        owner="environment",
    )


def _differences(
    first: InstanceFact | None, other: InstanceFact | None, group: Group, name: str
) -> Iterator[str]:
    """Say in what ``other`` falls short of ``first``; CAP006 and CAP007 speak about an unknown first."""
    if group.training_plan_arn:
        yield "a training plan reserves one type"
    if group.instance_types.count(name) > 1:
        yield "it is listed twice"
    if first is None:
        return
    if other is None:
        yield "it is not in the instance facts"
        return
    for what, wanted, has in (
        ("architecture", first.architecture, other.architecture),
        ("GPUs", first.gpu_count, other.gpu_count),
        ("EFA devices", first.efa_devices, other.efa_devices),
    ):
        if wanted != has:
            yield f"{what} {has}, not {wanted}"
    for what, least, has in (
        ("bytes of GPU memory", first.gpu_memory_bytes, other.gpu_memory_bytes),
        ("bytes of host memory", first.memory_bytes, other.memory_bytes),
        ("vCPUs", first.vcpus, other.vcpus),
        ("pods per node", first.pods_per_node, other.pods_per_node),
    ):
        if has < least:
            yield f"{has} {what}, fewer than {least}"
    if first.supports_dpd and not other.supports_dpd:
        yield "it cannot run disaggregated prefill and decode"
