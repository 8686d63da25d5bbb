"""NET and CLU: networks and clusters that were there before, and what they must be like."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule

_PREREQUISITES = "docs.aws.amazon.com: sagemaker-hyperpod-prerequisites"
_EKS_PREREQUISITES = "docs.aws.amazon.com: sagemaker-hyperpod-eks-prerequisites"
_NETWORK = (
    "network: {gpu_subnet_cidr: 10.1.0.0/16, existing: {vpc_id: vpc-0123456789abcdef0,\n"
    "  gpu_subnet_id: subnet-0123456789abcdef0,\n"
    "  control_plane_subnet_ids: [subnet-1123456789abcdef0, subnet-2123456789abcdef0],\n"
    "  security_groups: [{id: sg-0123456789abcdef0, self_ingress: true, self_egress: %s}]}}"
)
_CLUSTER = (
    "kubernetes: {existing: {cluster_name: ours, authentication_mode: %s,\n"
    "  kubectl_role_arn: arn:aws:iam::111122223333:role/kubectl,\n"
    "  oidc_provider_arn: arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0A1B,\n"
    "  security_group_id: sg-1123456789abcdef0}}"
)


@environment_rule(
    "NET003",
    Severity.ERROR,
    Doc(
        title="Existing security group not declared to admit itself",
        symptom="EFA health checks fail, and nodes are replaced without end (P-01, P-02).",
        cause="EFA needs all traffic from and to the group itself, in rules that name the group.",
        fix="Add both rules to the group, then declare `self_ingress: true` and `self_egress: true`.",
        source=_PREREQUISITES,
        bad=_NETWORK % "false",
        good=_NETWORK % "true",
    ),
)
def self_rules(context: EnvironmentContext) -> Iterable[Hit]:
    """Report each existing group that is not declared to have both rules; nothing here can look."""
    existing = context.environment.network.existing
    for index, group in enumerate(existing.security_groups if existing else ()):
        lacks = [name for name in ("self_ingress", "self_egress") if not getattr(group, name)]
        if lacks:
            yield Hit(
                path=("network", "existing", "security_groups", index),
                message=f"{group.id} is not declared to have {' and '.join(lacks)}",
                got=group.id,
                allowed="self_ingress: true and self_egress: true",
                fix="add the rules that name the group itself, then declare them",
                owner="environment",
            )


@environment_rule(
    "NET008",
    Severity.ERROR,
    Doc(
        title="Existing network, half described",
        symptom="Addresses are counted in a range that is not the subnet's, or a setting has no effect.",
        cause="The stacks change nothing in an existing network; what they would lay out is a statement.",
        fix="State the range of the existing GPU subnet, and leave out what only a new network has.",
        source="docs/deployment.md",
        bad=(_NETWORK % "true").replace("gpu_subnet_cidr: 10.1.0.0/16", "control_plane_zone_ids: [usw2-az1]"),
        good=_NETWORK % "true",
    ),
)
def existing_network_complete(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a GPU range that is only the default, a subnet named twice, and settings of new networks."""
    environment = context.environment
    network, existing = environment.network, environment.network.existing
    if existing is None:
        return
    if "gpu_subnet_cidr" not in network.model_fields_set:
        message = f"{existing.gpu_subnet_id} has a range that nobody states"
        yield _hit("gpu_subnet_cidr", message, None, "add network.gpu_subnet_cidr, the subnet's own range")
    ids = existing.control_plane_subnet_ids
    if len(set(ids)) < len(ids):
        message = "a subnet is named twice, and EKS wants two zones"
        yield _hit("existing", message, list(ids), "name subnets in two zones")
    if network.control_plane_zone_ids:
        message = "the existing subnets decide about zones"
        yield _hit("control_plane_zone_ids", message, list(network.control_plane_zone_ids), "leave it out")
    group_id = environment.weights.fsx_security_group_id
    if group_id:
        message = "no stack adds rules to an existing network"
        fix = "add the rules for Lustre yourself and leave it out"
        yield Hit(("weights", "fsx_security_group_id"), message, group_id, None, fix, "environment")


def _hit(key: str, message: str, got: object, fix: str) -> Hit:
    return Hit(path=("network", key), message=message, got=got, fix=fix, owner="environment")


@environment_rule(
    "CLU005",
    Severity.ERROR,
    Doc(
        title="Existing cluster without access entries",
        symptom="HyperPod refuses the cluster (P-13).",
        cause="It lets its nodes in by an access entry, and CONFIG_MAP clusters have none.",
        fix="Change the cluster to API_AND_CONFIG_MAP; it stays the same cluster, and cannot go back.",
        source=_EKS_PREREQUISITES,
        bad=_CLUSTER % "CONFIG_MAP",
        good=_CLUSTER % "API_AND_CONFIG_MAP",
    ),
)
def authentication_mode(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an authentication mode that HyperPod does not accept."""
    existing = context.environment.kubernetes.existing
    if existing is not None and existing.authentication_mode == "CONFIG_MAP":
        yield Hit(
            path=("kubernetes", "existing", "authentication_mode"),
            message=f"{existing.cluster_name} knows no access entries",
            got=existing.authentication_mode,
            allowed=["API", "API_AND_CONFIG_MAP"],
            fix="aws eks update-cluster-config --access-config authenticationMode=API_AND_CONFIG_MAP",
            owner="environment",
        )


@environment_rule(
    "CLU006",
    Severity.ERROR,
    Doc(
        title="Existing cluster beside a new network",
        symptom="Nodes cannot reach the control plane, or a setting of the cluster has no effect.",
        cause="A cluster stays in its VPC, and its endpoint and encryption are not changed from here.",
        fix="Name the cluster's network in `network.existing`, and leave out what only a new cluster has.",
        source=_EKS_PREREQUISITES,
        bad=_CLUSTER % "API",
        good=f"{_NETWORK % 'true'}\n{_CLUSTER % 'API'}",
    ),
)
def existing_cluster_complete(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an existing cluster without its network, with settings of new ones, or unknown add-ons."""
    environment = context.environment
    existing = environment.kubernetes.existing
    if existing is None:
        return
    if environment.network.existing is None:
        message = f"{existing.cluster_name} stands in a network that is not named"
        yield Hit(("kubernetes", "existing"), message, None, None, "add network.existing", "environment")
    if environment.kubernetes.public_access_cidrs:
        path, message = (
            ("kubernetes", "public_access_cidrs"),
            "the cluster's endpoint is not changed from here",
        )
        yield Hit(path, message, None, None, "leave it out", "environment")
    for index, name in enumerate(existing.addons):
        if name not in context.facts.addons:
            path = ("kubernetes", "existing", "addons", index)
            message, known = f"the stacks install no add-on `{name}`", list(context.facts.addons)
            yield Hit(path, message, name, known, f"known: {', '.join(known)}", "environment")
