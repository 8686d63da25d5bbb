"""TLS: the certificate and the name of an environment's endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.spec.guard import DOMAIN_PATTERN

_SETUP = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup"
_CRD = "InferenceEndpointConfig CRD of operator 3.2: tlsConfig, dnsConfig"


@environment_rule(
    "TLS001",
    Severity.ERROR,
    Doc(
        title="Certificate, name and zone do not make a whole",
        symptom="The endpoint is refused, or answers with the operator's self-signed certificate.",
        cause="The operator takes a certificate only with one of its names, and writes a record only for a "
        "certificate of yours.",
        fix="Set `endpoint.certificate_arn` and `endpoint.domain_name` together, with the zone or without.",
        source=_CRD,
        bad="endpoint: {hosted_zone_id: Z0123456789ABC}",
        good="endpoint: {certificate_arn: 'arn:aws:acm:us-west-2:111122223333:certificate/0123abcd', "
        "domain_name: llm.example.com, hosted_zone_id: Z0123456789ABC}",
    ),
)
def whole_endpoint(context: EnvironmentContext) -> Iterable[Hit]:
    """Report the key that is missing beside those that are set."""
    endpoint = context.environment.endpoint
    wanted = [key for key in ("certificate_arn", "domain_name", "hosted_zone_id") if getattr(endpoint, key)]
    if not wanted:
        return
    for key in ("certificate_arn", "domain_name"):
        if key not in wanted:
            yield Hit(
                path=("endpoint", key),
                message=f"endpoint.{' and endpoint.'.join(wanted)} need endpoint.{key}",
                allowed="certificate_arn and domain_name together",
                fix=f"set endpoint.{key}, or remove the others",
                owner="environment",
            )


@environment_rule(
    "TLS002",
    Severity.ERROR,
    Doc(
        title="Name that no endpoint can have",
        symptom="The resource is refused when the model is deployed.",
        cause="The operator takes one specific name in lower case, also of a wildcard certificate.",
        fix="Write the endpoint's own name, such as llm.example.com.",
        source=_CRD,
        bad="endpoint: {domain_name: '*.example.com'}",
        good="endpoint: {domain_name: llm.example.com}",
    ),
)
def domain_name(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a name with a wildcard, an upper-case letter or anything else that DNS does not take."""
    name = context.environment.endpoint.domain_name
    if name is not None and (len(name) > 253 or not re.fullmatch(DOMAIN_PATTERN, name)):
        yield Hit(
            path=("endpoint", "domain_name"),
            message=f"`{name}` is not one specific name in lower case",
            got=name,
            allowed="a name such as llm.example.com",
            fix="write one name in lower case, without a wildcard",
            owner="environment",
        )


@environment_rule(
    "TLS003",
    Severity.ERROR,
    Doc(
        title="Certificate lies elsewhere",
        symptom="The load balancer stays without a listener: the certificate is not found.",
        cause="A load balancer takes certificates of its own region and account alone.",
        fix="Request or import the certificate in the environment's region and account.",
        source=_SETUP,
        bad="endpoint: {certificate_arn: 'arn:aws:acm:eu-west-1:111122223333:certificate/0123abcd'}",
        good="endpoint: {certificate_arn: 'arn:aws:acm:us-west-2:111122223333:certificate/0123abcd'}",
    ),
)
def certificate_place(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare region and account of the certificate with the environment's."""
    environment = context.environment
    arn = environment.endpoint.certificate_arn
    if arn is None:
        return
    _, _, _, region, account, _ = arn.split(":", 5)
    for what, got, wanted in (
        ("region", region, environment.region),
        ("account", account, environment.account or account),
    ):
        if got != wanted:
            yield Hit(
                path=("endpoint", "certificate_arn"),
                message=f"the certificate's {what} is {got}, the environment's {wanted}",
                got=got,
                allowed=wanted,
                fix=f"use a certificate of {what} {wanted}",
                owner="environment",
            )


@environment_rule(
    "TLS004",
    Severity.ERROR,
    Doc(
        title="Several models share one name",
        symptom="Requests reach whichever model wrote the record last.",
        cause="Each model has a load balancer of its own, and one name can point to one of them.",
        fix="Serve one model in an environment with `endpoint.domain_name`, or leave the name out.",
        source=_CRD,
        bad="endpoint: {domain_name: llm.example.com}\nmodels: [llama-3.3-70b, qwen3-32b]",
        good="endpoint: {domain_name: llm.example.com}\nmodels: [llama-3.3-70b]",
    ),
)
def one_model_for_a_name(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a name in an environment with several models."""
    environment = context.environment
    if environment.endpoint.domain_name and len(environment.models) > 1:
        yield Hit(
            path=("endpoint", "domain_name"),
            message=f"{len(environment.models)} models would answer to {environment.endpoint.domain_name}",
            got=list(environment.models),
            allowed="one model",
            fix="serve the other models in an environment of their own, or remove the name",
            owner="environment",
        )
