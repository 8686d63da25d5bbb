"""Render the Kubernetes objects of chosen models, outside of any stack."""

from __future__ import annotations

from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.project import use_checkout
from dpd.selection import Selection
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.names import placement_group_export, tls_bucket_name, weights_bucket_name

# What the account's number is in a template that names no account.
_ANY_ACCOUNT = "${AWS::AccountId}"


def render_manifests(catalog: Catalog, facts: Facts, selection: Selection) -> tuple[str, list[Finding]]:
    """Return one YAML stream for the selection, and OPR011 for each model that has no manifests.

    Environments on this machine have none and are skipped.
    """
    use_checkout()
    parts: list[str] = []
    findings: list[Finding] = []
    for name in selection.environments:
        environment = catalog.environments[name].value
        if not isinstance(environment, Environment):
            continue
        for model in selection.models_of(environment):
            loaded, _ = catalog.effective(name, model)
            if loaded.value is not None:
                text, found = render_model(build_deployment(environment, loaded.value, facts))
                parts.append(text)
                findings += found
    return "---\n".join(part for part in parts if part), findings


def render_model(deployment: Deployment) -> tuple[str, list[Finding]]:
    """Return the YAML of one deployment, or the finding that says why there is none."""
    from k8s.render import RuntimeNotRendered, manifests, to_yaml

    try:
        return to_yaml(manifests(deployment, bindings(deployment.environment))), []
    except RuntimeNotRendered as error:
        finding = Finding(
            id="OPR011",
            severity=Severity.ERROR,
            path="serving.runtime",
            message=str(error),
            got=deployment.model.serving.runtime,
            allowed="operator",
            fix="use the operator runtime",
        )
        return "", [finding]


def bindings(environment: Environment):  # noqa: ANN201
    """Return what the stacks make, by name."""
    from k8s.render import Bindings

    account = environment.account or _ANY_ACCOUNT
    return Bindings(
        weights_bucket=environment.weights.bucket
        or weights_bucket_name(environment.name, account, environment.region),
        tls_bucket=environment.operator.tls_bucket
        or tls_bucket_name(environment.name, account, environment.region),
        placement_group=_placement_group(environment),
    )


def _placement_group(environment: Environment) -> str | None:
    """Return the name of the placement group; one that a stack makes gets its name when it is made."""
    wanted = environment.network.placement_group
    made = f"${{{placement_group_export(environment.name)}}}"
    return {"none": None, "create": made}.get(wanted, wanted)
