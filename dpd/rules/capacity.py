"""CAP: placement, instance types, and whether replicas fit their nodes."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, ModelContext, environment_rule, model_rule
from dpd.sizing.capacity import groups, pods_of_group

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"
_PLACEMENT = "AWS::SageMaker::Cluster registry schema: no placement-group property"


@environment_rule(
    "CAP002",
    Severity.ERROR,
    Doc(
        title="Placement group together with a training plan",
        symptom="Reserved nodes fail to launch with a capacity error (P-42, P-44).",
        cause="A training plan's capacity has its own placement; a second one contradicts it.",
        fix="Set `network.placement_group: none`.",
        source="aws/aws-parallelcluster#6311",
        bad="network: {placement_group: create}  # with training_plan_arn",
        good="network: {placement_group: none}",
    ),
)
def placement_with_plan(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a placement group beside a training plan."""
    environment = context.environment
    plans = [name for name, group in groups(environment).items() if group.training_plan_arn]
    if environment.network.placement_group != "none" and plans:
        yield Hit(
            path=("network", "placement_group"),
            message=f"a placement group cannot go with the training plan of {', '.join(plans)}",
            got=environment.network.placement_group,
            allowed="none",
            fix="set it to none",
            owner="environment",
        )


@environment_rule(
    "CAP003",
    Severity.WARNING,
    Doc(
        title="Placement group that HyperPod nodes cannot join",
        symptom="The group stays empty and changes nothing.",
        cause="The cluster resource has no such property, and its nodes are not in your EC2 account.",
        fix="Rely on the one zone, `dpd.topology.same_zone` and role labels.",
        source=_PLACEMENT,
        bad="network: {placement_group: create}",
        good="network: {placement_group: none}",
    ),
)
def placement_group(context: EnvironmentContext) -> Iterable[Hit]:
    """Report any placement group without a training plan; with one, CAP002 speaks."""
    environment = context.environment
    if environment.network.placement_group == "none":
        return
    if any(group.training_plan_arn for group in groups(environment).values()):
        return
    yield Hit(
        path=("network", "placement_group"),
        message="HyperPod nodes cannot join a placement group; it would serve other EC2 instances only",
        got=environment.network.placement_group,
        allowed="none",
        fix="set it to none unless other instances use it",
        owner="environment",
    )


@environment_rule(
    "CAP004",
    Severity.ERROR,
    Doc(
        title="Training plan on the system group",
        symptom="System pods lose their nodes when the plan ends (P-46).",
        cause="Training plans reserve accelerators; the system group runs on CPU instances.",
        fix="Remove the plan from the system group.",
        source="docs.aws.amazon.com: API_SearchTrainingPlanOfferings",
        bad="groups: {system: {training_plan_arn: arn:aws:sagemaker:...}}",
        good="groups: {decode: {training_plan_arn: arn:aws:sagemaker:...}}",
    ),
)
def plan_on_system(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a training plan on the CPU group."""
    plan = context.environment.hyperpod.groups.system.training_plan_arn
    if plan:
        yield Hit(
            path=("hyperpod", "groups", "system", "training_plan_arn"),
            message="a training plan cannot serve the system group",
            got=plan,
            fix="remove it",
            owner="environment",
        )


@model_rule(
    "CAP005",
    Severity.ERROR,
    Doc(
        title="Replicas do not fit their group",
        symptom="Pods stay Pending with `Insufficient nvidia.com/gpu`.",
        cause="The group's nodes have fewer GPUs than the replicas ask for; one pod stays on one node.",
        fix="Lower replicas or tensor parallel, or raise the group's count.",
        source=_DPD_PAGE,
        bad="dpd: {prefill: {replicas: 2}}  # group of one node, tensor_parallel 8",
        good="dpd: {prefill: {replicas: 1}}",
    ),
)
def replicas_fit(context: ModelContext) -> Iterable[Hit]:
    """Report replicas beyond the whole pods that the group's nodes hold; OPR006 speaks of decoders first."""
    one_decoder = context.deployment.model.serving.runtime == "operator"
    for role in context.deployment.roles:
        fitting = pods_of_group(role)
        if fitting is None or (one_decoder and role.name == "decode" and role.replicas > 1):
            continue
        if role.replicas > fitting:
            path = ("serving", "replicas") if role.name == "worker" else ("dpd", role.name, "replicas")
            yield Hit(
                path=path,
                message=(
                    f"{role.replicas} replicas of {role.resources.gpus} GPUs need more than "
                    f"{role.group.count} x {role.group.instance_type} of group {role.group_name}"
                ),
                got=role.replicas,
                allowed=fitting,
                fix=f"set at most {fitting}, or raise the group's count",
            )


@environment_rule(
    "CAP006",
    Severity.ERROR,
    Doc(
        title="Instance type cannot run DPD",
        symptom="Workers start, and KV cache moves over TCP or not at all.",
        cause="The operator supports DPD on five types with EFA and GPUDirect RDMA.",
        fix="Use a type that the message lists.",
        source=_DPD_PAGE,
        bad="groups: {decode: {instance_type: ml.g6e.48xlarge, count: 1}}",
        good="groups: {decode: {instance_type: ml.p5en.48xlarge, count: 1}}",
    ),
)
def instance_supports_dpd(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a GPU group whose type is unknown or cannot run DPD."""
    allowed = context.facts.dpd_instance_types()
    for name in ("prefill", "decode"):
        instance_type = groups(context.environment)[name].instance_type
        if instance_type in allowed:
            continue
        missing_prefix = f"ml.{instance_type}" in allowed
        yield Hit(
            path=("hyperpod", "groups", name, "instance_type"),
            message=f"{instance_type} cannot run disaggregated prefill and decode",
            got=instance_type,
            allowed=list(allowed),
            fix=f"write ml.{instance_type}" if missing_prefix else f"use one of {', '.join(allowed)}",
            owner="environment",
        )


@environment_rule(
    "CAP007",
    Severity.ERROR,
    Doc(
        title="System group too small or not amd64",
        symptom="The operator's add-on stays in CREATING with Pending pods (P-04, P-19, P-21).",
        cause="The operator and what it needs take room for at least 13 pods; its image is amd64 only.",
        fix="Use two ml.c5.4xlarge, or more or larger amd64 nodes.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup",
        bad="groups: {system: {instance_type: ml.m5.xlarge, count: 1}}",
        good="groups: {system: {instance_type: ml.c5.4xlarge, count: 2}}",
    ),
)
def system_group(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a system group that cannot hold the operator's pods, or whose type is not known."""
    group = context.environment.hyperpod.groups.system
    facts = context.facts
    instance = facts.instances.get(group.instance_type)
    path = ("hyperpod", "groups", "system", "instance_type")
    fitting = [name for name, row in facts.instances.items() if row.architecture == "amd64" and not row.gpu]
    if instance is None or instance.architecture != "amd64":
        why = "is not in the instance facts" if instance is None else "is not amd64"
        yield Hit(
            path,
            f"{group.instance_type} {why}; the operator's image runs on amd64 only",
            group.instance_type,
            fitting,
            f"use one of {', '.join(fitting)}",
            "environment",
        )
        return
    per_node = instance.pods_per_node - int(facts.constant("system_reserved_pods"))
    needed = int(facts.constant("system_pod_count_minimum"))
    room = max(0, per_node) * group.count
    if room < needed:
        yield Hit(
            ("hyperpod", "groups", "system", "count"),
            f"{group.count} x {group.instance_type} have room for {room} pods, the operator needs {needed}",
            group.count,
            f"room for {needed} pods",
            "use two ml.c5.4xlarge or more",
            "environment",
        )
