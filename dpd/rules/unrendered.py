"""What the configuration can say and this version does not build: refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, ModelContext, environment_rule, model_rule


@model_rule(
    "OPR011",
    Severity.ERROR,
    Doc(
        title="Runtime without manifests",
        symptom="The environment would deploy without this model.",
        cause="This version renders manifests for the operator runtime only.",
        fix="Use `runtime: operator`, or take the model out of the environment's list.",
        source="docs/limits.md",
        bad="serving: {runtime: self_managed}  # listed in an environment",
        good="serving: {runtime: operator}",
    ),
)
def runtime_rendered(context: ModelContext) -> Iterable[Hit]:
    """Report a listed model that cannot be rendered; trying one out in `plan` stays possible."""
    deployment = context.deployment
    listed = deployment.model.name in deployment.environment.models
    if listed and deployment.model.serving.runtime == "self_managed":
        yield Hit(
            path=("serving", "runtime"),
            message="the self-managed runtime has no manifests in this version",
            got="self_managed",
            allowed="operator",
            fix="use operator, or remove the model from the environment's list",
        )


@environment_rule(
    "OBS001",
    Severity.ERROR,
    Doc(
        title="Observability is not rendered yet",
        symptom="The dashboards that the configuration asks for do not exist.",
        cause="This version installs no observability add-on.",
        fix="Set `observability.enabled: false`; `prometheus_url` for autoscaling works without it.",
        source="docs/limits.md",
        bad="observability: {enabled: true}",
        good="observability: {enabled: false}",
    ),
)
def observability(context: EnvironmentContext) -> Iterable[Hit]:
    """Refuse observability, which no stack installs."""
    if context.environment.observability.enabled:
        yield Hit(
            path=("observability", "enabled"),
            message="this version installs no observability",
            got=True,
            allowed=False,
            fix="set it to false",
            owner="environment",
        )


@environment_rule(
    "PRO001",
    Severity.ERROR,
    Doc(
        title="Promotion is not rendered yet",
        symptom="Nobody approves anything: there is no pipeline.",
        cause="This version deploys with `cdk deploy` alone.",
        fix="Leave `promotion` out.",
        source="docs/limits.md",
        bad="promotion: {from: staging, manual_approval: true}",
        good="promotion: {from: null}",
    ),
)
def promotion(context: EnvironmentContext) -> Iterable[Hit]:
    """Refuse a promotion, which no stack enforces."""
    wanted = context.environment.promotion
    if wanted.from_ or wanted.manual_approval:
        yield Hit(
            path=("promotion",),
            message="this version has no pipeline that would promote or ask for approval",
            got=wanted.from_,
            fix="leave promotion out",
            owner="environment",
        )
