"""NET: a network without a way to the internet, and what must have been copied for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

from dpd.finding import Severity
from dpd.rules.registry import (
    Doc,
    EnvironmentContext,
    Hit,
    ModelContext,
    environment_rule,
    in_models_too,
    model_rule,
)
from dpd.spec.base_chart import chart_pin
from dpd.spec.environment import Environment

_PRIVATE_CLUSTERS = "docs.aws.amazon.com: eks private-clusters"
_BALANCER_CALLS: Final = {"enableShield": "shield", "enableWaf": "waf-regional", "enableWafv2": "wafv2"}
"""Switches of the load balancer controller, each with the service that it calls while it is not false."""


def _within_reach(reference: str, environment: Environment) -> bool:
    """Tell whether an image lies in a private registry of the region, which the ECR endpoints serve."""
    region = re.escape(environment.region)
    return re.match(rf"[0-9]{{12}}\.dkr\.ecr\.{region}\.amazonaws\.com(\.cn)?/", reference) is not None


@environment_rule(
    "NET004",
    Severity.ERROR,
    Doc(
        title="Image that a closed network cannot pull",
        symptom="Pods stay in ImagePullBackOff, after every node has been paid for.",
        cause="Public registries are on the internet, and ECR endpoints serve their own region alone.",
        fix="Run `dpd mirror --env NAME --apply`, and commit the file that it writes.",
        source=_PRIVATE_CLUSTERS,
        bad="network: {closed: true}  # and nothing copied",
        good="network: {closed: false}",
    ),
)
def chart_images_mirrored(context: EnvironmentContext) -> Iterable[Hit]:
    """Report the images of the base chart that have no copy; one hit names all of them."""
    environment = context.environment
    if not environment.network.closed:
        return
    missing = [
        row.reference
        for row in context.facts.chart_images.values()
        if environment.mirrored_image(row.reference) is None
    ]
    if missing:
        yield Hit(
            path=("network", "closed"),
            message=f"the base chart pulls {', '.join(missing)}, of which there is no copy",
            got=missing,
            fix=_apply(environment),
            owner="environment",
        )


@in_models_too("NET004")
def image_mirrored(context: ModelContext) -> Iterable[Hit]:
    """Report a model's image that nodes of a closed network cannot reach."""
    deployment = context.deployment
    environment, reference = deployment.environment, deployment.image.reference
    if environment.network.closed and not _within_reach(reference, environment):
        yield Hit(
            path=("serving", "image"),
            message=f"a closed network cannot pull {reference}",
            got=deployment.model.serving.image,
            allowed=f"<account>.dkr.ecr.{environment.region}.amazonaws.com/<repository>",
            fix=_apply(environment),
        )


@environment_rule(
    "NET007",
    Severity.ERROR,
    Doc(
        title="Base chart that a closed network cannot fetch",
        symptom="The build of the base chart runs into its time limit at `git fetch`.",
        cause="The chart's repository is on the internet; its copy is missing, or is one of another commit.",
        fix="Run `dpd mirror --env NAME --apply` again after every change of the chart's commit.",
        source="aws/sagemaker-hyperpod-cli helm_chart/HyperPodHelmChart",
        bad="network: {closed: true}  # and nothing copied",
        good="network: {closed: false}",
    ),
)
def chart_mirrored(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a missing copy of the base chart, and one of another commit than is configured."""
    environment = context.environment
    if not environment.network.closed:
        return
    wanted = chart_pin(environment, context.facts).commit
    copy = environment.mirrored_chart
    if copy is None:
        message, path = "there is no copy of the base chart", ("network", "closed")
    elif copy.commit != wanted:
        message = f"the copy of the base chart is of commit {copy.commit}, configured is {wanted}"
        path = ("mirror", "chart", "commit")
    else:
        return
    got = copy.commit if copy else None
    yield Hit(path, message, got, wanted, _apply(environment), "environment")


@environment_rule(
    "NET009",
    Severity.WARNING,
    Doc(
        title="Endpoint choice without effect",
        symptom="An endpoint that somebody counts on does not exist.",
        cause="The stacks make endpoints only in a closed network of their own, and know each by one name.",
        fix="Take the entry out, or close the network.",
        source="docs/closed-network.md",
        bad="network: {closed: false, further_endpoints: [bedrock-runtime]}",
        good="network: {closed: false, further_endpoints: []}",
    ),
)
def endpoint_choice(context: EnvironmentContext) -> Iterable[Hit]:
    """Report endpoints that are named and not made, and omissions of what would not be made either."""
    network, known = context.environment.network, context.facts.endpoints
    makes = network.closed and network.existing is None
    for key, named in (
        ("further_endpoints", network.further_endpoints),
        ("omitted_endpoints", network.omitted_endpoints),
    ):
        for index, service in enumerate(named):
            if not makes:
                message = "no stack makes endpoints here"
            elif key == "omitted_endpoints" and service not in known:
                message = f"no stack makes an endpoint of `{service}`"
            else:
                continue
            yield Hit(("network", key, index), message, service, list(known), "take it out", "environment")


@environment_rule(
    "NET011",
    Severity.ERROR,
    Doc(
        title="DNS record that a closed network cannot write",
        symptom="The endpoint waits for its record, and clients find no address.",
        cause="Route 53 has no interface endpoint, and the operator writes the record from inside the VPC.",
        fix="Leave `endpoint.hosted_zone_id` out, and make the record yourself.",
        source=_PRIVATE_CLUSTERS,
        bad="network: {closed: true}\n"
        "endpoint: {hosted_zone_id: Z0123456789ABC, domain_name: llm.example.com,\n"
        "  certificate_arn: arn:aws:acm:us-west-2:111122223333:certificate/"
        "0123abcd-0000-0000-0000-000000000000}",
        good="network: {closed: true}\nendpoint: {hosted_zone_id: null}",
    ),
)
def record_reachable(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a record that the operator would have to write without a way to Route 53."""
    environment = context.environment
    if environment.network.closed and environment.endpoint.hosted_zone_id:
        yield Hit(
            path=("endpoint", "hosted_zone_id"),
            message="a closed network cannot reach Route 53",
            got=environment.endpoint.hosted_zone_id,
            fix="leave it out, and make the record yourself",
            owner="environment",
        )


@environment_rule(
    "NET013",
    Severity.WARNING,
    Doc(
        title="Load balancer controller calls what a closed network does not reach",
        symptom="An endpoint gets no load balancer; the controller's log shows time-outs of WAF or Shield.",
        cause="The controller asks Shield and both WAFs about each load balancer unless it is told not to, "
        "and no stack makes endpoints of theirs.",
        fix="Switch the three off. That the add-on knows the switches is unconfirmed: compare with `aws eks "
        "describe-addon-configuration`.",
        source=_PRIVATE_CLUSTERS,
        bad="network: {closed: true}",
        good="network: {closed: true}\n"
        "operator: {configuration: {alb: {enableShield: false, enableWaf: false, enableWafv2: false}}}",
    ),
)
def balancer_calls(context: EnvironmentContext) -> Iterable[Hit]:
    """Report each switch that is not false; a service that the environment makes an endpoint of may be on."""
    environment = context.environment
    values = environment.operator.configuration.get("alb")
    alb: Mapping[str, object] = cast("Mapping[str, object]", values) if isinstance(values, Mapping) else {}
    if not environment.network.closed or alb.get("enabled") is False:
        return
    for switch, service in _BALANCER_CALLS.items():
        if alb.get(switch) is not False and service not in environment.network.further_endpoints:
            yield Hit(
                path=("operator", "configuration", "alb", switch),
                message=f"the load balancer controller calls {service}, of which no endpoint is made",
                got=alb.get(switch),
                allowed=False,
                fix=f"write operator.configuration: {{alb: {{{switch}: false}}}}",
                owner="environment",
            )


@model_rule(
    "NET010",
    Severity.ERROR,
    Doc(
        title="Weights that a closed network cannot fetch",
        symptom="Pods wait for their weights until the deployment gives up.",
        cause="The Hugging Face hub is on the internet.",
        fix="Upload the weights to the bucket, and write `weights: {source: s3, prefix: ...}`.",
        source=_PRIVATE_CLUSTERS,
        bad="network: {closed: true}\nweights: {source: huggingface, prefix: null}",
        good="network: {closed: true}\nweights: {source: s3, prefix: Llama-3.3-70B-Instruct/}",
    ),
)
def weights_reachable(context: ModelContext) -> Iterable[Hit]:
    """Report weights on the Hugging Face hub for a closed network."""
    deployment = context.deployment
    source = deployment.model.weights.source
    if deployment.environment.network.closed and source == "huggingface":
        yield Hit(
            path=("weights", "source"),
            message="a closed network cannot reach the Hugging Face hub",
            got=source,
            allowed=["s3", "fsx"],
            fix="upload the weights to the bucket and use s3",
        )


def _apply(environment: Environment) -> str:
    return f"run `dpd mirror --env {environment.name} --apply`"
