"""LBL: node selectors against the labels that nodes carry, and placement groups against none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from dpd.facts import Facts
from dpd.finding import Severity
from dpd.network_facts import NodeLabelFact
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.spec.deployment import ROLE_LABEL, RoleDeployment
from dpd.spec.environment import Environment
from dpd.spec.names import cluster_name

_TOPOLOGY = "docs.aws.amazon.com: sagemaker-hyperpod-topology"


@model_rule(
    "LBL001",
    Severity.ERROR,
    Doc(
        title="Node selector that no node matches",
        symptom="Pods stay Pending for ever, beside nodes that are paid for (P-24).",
        cause="The key is none that HyperPod, the stacks or the group's `labels` set, or its value another.",
        fix="Use a key that the message lists; labels of your own go to `hyperpod.groups.<name>.labels`.",
        source=_TOPOLOGY,
        bad="node_selector: {topology.k8s.aws/network-node-layer-4: nn-0123456789abcdef0}  # ml.p5.48xlarge",
        good="node_selector: {topology.k8s.aws/network-node-layer-3: nn-0123456789abcdef0}",
    ),
)
def selectors_match(context: ModelContext) -> Iterable[Hit]:
    """Compare each selector with the labels of the role's group; EFA006 reports a missing `ml.`."""
    environment = context.deployment.environment
    for role in context.deployment.roles:
        labels = _own_labels(role)
        for key, value in role.node_selector.items():
            wrong = _wrong(key, value, role, labels, environment, context.facts)
            if wrong is not None:
                message, allowed, fix = wrong
                path = ("dpd", role.name, "node_selector", key)
                yield Hit(path=path, message=message, got=value, allowed=allowed, fix=fix)


def _own_labels(role: RoleDeployment) -> dict[str, str]:
    return {**role.group.labels, ROLE_LABEL: role.group_name}


def _wrong(
    key: str,
    value: str,
    role: RoleDeployment,
    labels: Mapping[str, str],
    environment: Environment,
    facts: Facts,
) -> tuple[str, object, str] | None:
    """Return message, what is allowed and fix; None where nodes of the role's group can match."""
    fact = facts.node_labels.get(key)
    if key in labels:
        expected: tuple[str, ...] = (labels[key],)
    elif fact is None:
        known = sorted({*facts.node_labels, *labels})
        near = difflib.get_close_matches(key, known, n=1)
        fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
        return f"no node of group {role.group_name} has a label `{key}`", known, fix
    elif fact.layer is not None:
        layers = role.instance.network_label_layers if role.instance else fact.layer
        if fact.layer <= layers:
            return None
        message = f"{role.group.instance_type} has {layers} network layers, and this is layer {fact.layer}"
        return message, f"layers 1 to {layers}", f"use layer {layers}, the one closest to the node"
    else:
        expected = _expected(fact, role, environment)
    without_prefix = key.endswith("/instance-type") and not value.startswith("ml.")
    if not expected or value in expected or without_prefix:
        return None
    allowed = " or ".join(expected)
    return f"nodes of group {role.group_name} have {key}={allowed}", list(expected), f"write {allowed}"


def _expected(fact: NodeLabelFact, role: RoleDeployment, environment: Environment) -> tuple[str, ...]:
    """Return the values that nodes of the role's group have; empty where nobody can know."""
    values: dict[str | None, tuple[str, ...]] = {
        "region": (environment.region,),
        "cluster": (cluster_name(environment.name),),
        "group": (role.group_name,),
        "instance_type": role.group.instance_types,
        "architecture": (role.instance.architecture,) if role.instance else (),
        "os": ("linux",),
    }
    return values.get(fact.equals, ())


@model_rule(
    "LBL002",
    Severity.ERROR,
    Doc(
        title="Placement group of the environment where it has none",
        symptom="The endpoint cannot be rendered, or names a group that does not exist.",
        cause="`dpd.topology.placement_group: environment` means the group of `network.placement_group`.",
        fix="Leave it out: HyperPod nodes cannot join one. Locality comes from the zone and from labels.",
        source=_TOPOLOGY,
        bad="dpd: {topology: {placement_group: environment}}",
        good="dpd: {topology: {same_zone: true}}",
    ),
)
def placement_group_exists(context: ModelContext) -> Iterable[Hit]:
    """Report a model that asks for its environment's placement group, where there is none."""
    deployment = context.deployment
    asked = deployment.model.dpd.topology.placement_group == "environment"
    if asked and deployment.environment.network.placement_group == "none":
        yield Hit(
            path=("dpd", "topology", "placement_group"),
            message="the environment has no placement group",
            got="environment",
            fix="leave it out, or set network.placement_group",
        )
