"""SCL: how far roles scale, and what moves them."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.sizing.capacity import pods_of_group
from dpd.spec.deployment import RoleDeployment

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"


@model_rule(
    "SCL001",
    Severity.ERROR,
    Doc(
        title="Role may scale to zero",
        symptom="One role disappears while the other waits for it (P-69).",
        cause="A minimum of 0 lets the autoscaler remove the last prefiller or decoder.",
        fix="Keep at least one replica of each role.",
        source="llm-d/llm-d-autoscaling#1531",
        bad="autoscaling: {prefill: {min: 0, max: 2}}",
        good="autoscaling: {prefill: {min: 1, max: 2}}",
    ),
)
def never_zero(context: ModelContext) -> Iterable[Hit]:
    """Report a minimum of 0 in either role."""
    for role in context.deployment.roles:
        if role.scaling.min == 0:
            yield Hit(
                path=("autoscaling", role.name, "min"),
                message=f"{role.name} may scale to zero",
                got=0,
                allowed="1 or more",
                fix="set it to 1 or more",
            )


@model_rule(
    "SCL003",
    Severity.ERROR,
    Doc(
        title="Maximum exceeds the group",
        symptom="Scaled-out pods stay Pending, and the autoscaler counts them as capacity.",
        cause="The group's nodes have fewer GPUs than the maximum asks for.",
        fix="Lower the maximum or raise the group's count.",
        source=_DPD_PAGE,
        bad="autoscaling: {prefill: {min: 1, max: 4}}  # group of one node",
        good="autoscaling: {prefill: {min: 1, max: 1}}",
    ),
)
def maximum_fits(context: ModelContext) -> Iterable[Hit]:
    """Report a maximum beyond the group's GPUs; CAP005 speaks where replicas already do not fit."""
    for role in context.deployment.roles:
        capacity = pods_of_group(role)
        if capacity is None or role.name == "worker":
            continue
        if role.replicas <= capacity < role.scaling.max:
            yield Hit(
                path=("autoscaling", role.name, "max"),
                message=(
                    f"group {role.group_name} holds {capacity} replicas, "
                    f"autoscaling asks for {role.scaling.max}"
                ),
                got=role.scaling.max,
                allowed=capacity,
                fix=f"set it to {capacity} or raise the group's count",
            )


@model_rule(
    "SCL004",
    Severity.ERROR,
    Doc(
        title="Autoscaling without a source of metrics",
        symptom="Replicas never change, whatever the load.",
        cause="The autoscaler's trigger needs the address of a Prometheus workspace.",
        fix="Set `observability.prometheus_url`, or make min and max equal.",
        source="InferenceEndpointConfig CRD: pdSpec.autoScalingSpec",
        bad="autoscaling: {prefill: {min: 1, max: 2}}  # no observability.prometheus_url",
        good="observability: {prometheus_url: https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-...}",
    ),
)
def metrics_source(context: ModelContext) -> Iterable[Hit]:
    """Report an open range in an environment without a Prometheus address; SCL003 speaks first."""
    deployment = context.deployment
    if deployment.environment.observability.prometheus_url:
        return
    for role in deployment.roles:
        if _scales(role):
            yield Hit(
                path=("autoscaling", role.name, "max"),
                message=f"{role.name} scales from {role.scaling.min} to {role.scaling.max} on no metric",
                got=f"{role.scaling.min} to {role.scaling.max}",
                fix="set observability.prometheus_url in the environment, or make min and max equal",
            )
            return


def _scales(role: RoleDeployment) -> bool:
    """Tell whether the autoscaler may move a role; a maximum beyond the group is SCL003's."""
    beyond = role.scaling.max > (pods_of_group(role) or role.scaling.max)
    return role.name != "worker" and not beyond and role.scaling.max > role.scaling.min > 0


@model_rule(
    "SCL002",
    Severity.WARNING,
    Doc(
        title="Both roles scale on one signal",
        symptom="Prefillers and decoders grow together, and one of them idles at full price (P-69).",
        cause="The roles run out of different things: prefillers of time, decoders of slots and KV cache.",
        fix="Leave `signal` out, or scale prefill on waiting and decode on running or kv_cache.",
        source="llm-d/llm-d-autoscaling#736",
        bad="autoscaling: {prefill: {min: 1, max: 2, signal: running}, decode: {min: 1, max: 2}}",
        good="autoscaling: {prefill: {min: 1, max: 2}, decode: {min: 1, max: 2}}",
    ),
)
def own_signals(context: ModelContext) -> Iterable[Hit]:
    """Report a signal that moves both roles, where both of them scale."""
    moving = [role for role in context.deployment.roles if _scales(role)]
    if len(moving) < len(context.deployment.roles) or len(moving) == 1:
        return
    prefill, decode = moving
    shared = [signal for signal in prefill.signals if signal in decode.signals]
    if shared:
        odd = prefill if prefill.scaling.signal else decode
        yield Hit(
            path=("autoscaling", odd.name, "signal"),
            message=f"prefill and decode both scale on {', '.join(shared)}",
            got=shared,
            allowed="another signal for each role",
            fix="leave it out",
        )


@model_rule(
    "SCL005",
    Severity.ERROR,
    Doc(
        title="Replicas outside their autoscaling range",
        symptom="The autoscaler changes the number of replicas right after each deployment.",
        cause="`replicas` is where a role starts; below the minimum or above the maximum it cannot stay.",
        fix="Set replicas within the range.",
        source="InferenceEndpointConfig CRD: pdSpec.autoScalingSpec",
        bad="autoscaling: {prefill: {min: 2, max: 3}}  # replicas 1, group of three nodes",
        good="autoscaling: {prefill: {min: 1, max: 3}}",
    ),
)
def replicas_in_range(context: ModelContext) -> Iterable[Hit]:
    """Compare the replicas of each role that scales with its range; CAP005 speaks where they do not fit."""
    for role in context.deployment.roles:
        if role.replicas > (pods_of_group(role) or role.replicas):
            continue
        if _scales(role) and not role.scaling.min <= role.replicas <= role.scaling.max:
            yield Hit(
                path=("dpd", role.name, "replicas"),
                message=(
                    f"{role.name} starts with {role.replicas} replicas and scales from {role.scaling.min} to "
                    f"{role.scaling.max}"
                ),
                got=role.replicas,
                allowed=f"{role.scaling.min} to {role.scaling.max}",
                fix="set replicas within the range",
            )
