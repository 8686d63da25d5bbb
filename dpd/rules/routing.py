"""RTG and SCL: which prompts are disaggregated, and how far roles scale."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.sizing.capacity import pods_of_group

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"
_THRESHOLD = ("dpd", "routing", "threshold_tokens")


@model_rule(
    "RTG001",
    Severity.ERROR,
    Doc(
        title="Threshold at or above the context length",
        symptom="The prefill nodes idle; every request is served by the decoder alone (P-70).",
        cause="No prompt can be as long as the threshold.",
        fix="Lower the threshold below the length of the prompts that should be disaggregated.",
        source=_DPD_PAGE,
        bad="serving: {max_model_len: 16384}\ndpd: {routing: {threshold_tokens: 16384}}",
        good="dpd: {routing: {threshold_tokens: 4096}}",
    ),
)
def threshold_reachable(context: ModelContext) -> Iterable[Hit]:
    """Compare the threshold with the context length."""
    deployment = context.deployment
    threshold, longest = deployment.model.dpd.routing.threshold_tokens, deployment.max_model_len
    if deployment.disaggregated and threshold >= longest:
        yield Hit(
            path=_THRESHOLD,
            message=f"no prompt reaches {threshold} tokens, the context holds {longest}",
            got=threshold,
            allowed=f"less than {longest}",
            fix="lower it",
        )


@model_rule(
    "RTG002",
    Severity.WARNING,
    Doc(
        title="Threshold below the chunk size",
        symptom="Short prompts go through a prefiller, and their last part is recomputed (P-54).",
        cause="LMCache moves whole chunks; a prompt below one chunk gains nothing.",
        fix="Raise the threshold to the chunk size or above, or set 0 on purpose for tests.",
        source="LMCache/LMCache#2459",
        bad="dpd: {routing: {threshold_tokens: 100}}",
        good="dpd: {routing: {threshold_tokens: 4096}}",
    ),
)
def threshold_above_chunk(context: ModelContext) -> Iterable[Hit]:
    """Report a threshold between 0 and the chunk size; 0 means every prompt, and is deliberate."""
    threshold = context.deployment.model.dpd.routing.threshold_tokens
    chunk = int(context.facts.constant("lmcache_page_tokens"))
    if context.deployment.disaggregated and 0 < threshold < chunk:
        yield Hit(
            path=_THRESHOLD,
            message=f"{threshold} tokens is less than a chunk of {chunk}",
            got=threshold,
            allowed=f"0, or {chunk} and more",
            fix=f"raise it to {chunk} or more",
        )


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
        too_many = role.scaling.max > (pods_of_group(role) or role.scaling.max)
        if role.name != "worker" and not too_many and role.scaling.max > role.scaling.min > 0:
            yield Hit(
                path=("autoscaling", role.name, "max"),
                message=f"{role.name} scales from {role.scaling.min} to {role.scaling.max} on no metric",
                got=f"{role.scaling.min} to {role.scaling.max}",
                fix="set observability.prometheus_url in the environment, or make min and max equal",
            )
            return
