"""NET and SEC: addresses, ranges, regions and exposure."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.sizing.capacity import gpu_subnet_groups, gpu_subnet_use, groups, largest_prefix

_PREREQUISITES = "docs.aws.amazon.com: sagemaker-hyperpod-prerequisites"


@environment_rule(
    "NET001",
    Severity.ERROR,
    Doc(
        title="GPU subnet has too few addresses",
        symptom="Nodes fail to join with an address error after minutes of provisioning.",
        cause="Every EFA card takes an address: 81 for one ml.p5.48xlarge under EKS (report P-16).",
        fix="Widen `network.gpu_subnet_cidr`.",
        source=_PREREQUISITES,
        bad="network: {gpu_subnet_cidr: 10.1.0.0/24}  # four ml.p5.48xlarge",
        good="network: {gpu_subnet_cidr: 10.1.0.0/16}",
    ),
)
def subnet_addresses(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare the addresses that all nodes take with those of the subnet."""
    use = gpu_subnet_use(context.environment, context.facts)
    if use is None or use.needed <= use.available:
        return
    cidr = context.environment.network.gpu_subnet_cidr
    nodes = ", ".join(
        f"{group.count} x {group.instance_type}" for group in gpu_subnet_groups(context.environment).values()
    )
    prefix = largest_prefix(use.needed + int(context.facts.constant("subnet_reserved_addresses")))
    wider = f"use a /{prefix} or wider" if prefix else "no subnet holds so many; take fewer nodes"
    yield Hit(
        path=("network", "gpu_subnet_cidr"),
        message=f"the nodes ({nodes}) need {use.needed} addresses, {cidr} has {use.available}",
        got=str(cidr),
        allowed=f"/{prefix} or wider" if prefix else None,
        fix=wider,
        owner="environment",
    )


@environment_rule(
    "NET002",
    Severity.ERROR,
    Doc(
        title="Ranges overlap",
        symptom="CloudFormation rejects the secondary range, or routes send traffic to the wrong subnet.",
        cause="The GPU range is inside the VPC's primary range.",
        fix="Choose a GPU range outside the primary range.",
        source="docs.aws.amazon.com: vpc-cidr-blocks; eks network-reqs",
        bad="network: {vpc_cidr: 10.0.0.0/16, gpu_subnet_cidr: 10.0.128.0/17}",
        good="network: {vpc_cidr: 10.0.0.0/16, gpu_subnet_cidr: 10.1.0.0/16}",
    ),
)
def overlapping_ranges(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a GPU range that meets the primary range.

    Of the two ranges that EKS can use for services (10.100.0.0/16 and 172.20.0.0/16), one is always free:
    AWS lets no VPC have both blocks (NET012).
    """
    network = context.environment.network
    if network.existing is not None:
        # It exists, so its ranges do; a GPU subnet may lie in any of them.
        return
    if network.gpu_subnet_cidr.overlaps(network.vpc_cidr):
        yield Hit(
            path=("network", "gpu_subnet_cidr"),
            message=f"{network.gpu_subnet_cidr} overlaps vpc_cidr {network.vpc_cidr}",
            got=str(network.gpu_subnet_cidr),
            allowed=f"a range outside {network.vpc_cidr}",
            fix="choose a range outside vpc_cidr",
            owner="environment",
        )


@environment_rule(
    "NET005",
    Severity.ERROR,
    Doc(
        title="Region cannot run this environment",
        symptom="The template is rejected, or the operator's pods cannot pull their image.",
        cause="HyperPod, the operator's images or the instance type do not exist in the region.",
        fix="Choose a region that the message lists.",
        source="AWS::SageMaker::Cluster registry schema (cfn-lint 1.58.0); operator chart image map",
        bad="region: eu-west-3",
        good="region: us-west-2",
    ),
)
def region_support(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a region without HyperPod, without the operator, or without an instance type."""
    environment, facts = context.environment, context.facts
    row = facts.regions.get(environment.region)
    usable = [name for name, at in facts.regions.items() if at.hyperpod and at.operator_image_account]
    if row is None or not row.hyperpod or not row.operator_image_account:
        lacks = "the inference operator's images" if row is not None and row.hyperpod else "HyperPod on EKS"
        yield Hit(
            path=("region",),
            message=f"{environment.region} does not offer {lacks}",
            got=environment.region,
            allowed=usable,
            fix=f"use one of {', '.join(usable)}",
            owner="environment",
        )
        return
    for name, group in groups(environment).items():
        instance = facts.instances.get(group.instance_type)
        if instance is None or not instance.supports_dpd or group.instance_type in row.instance_types:
            continue
        having = [name for name in usable if group.instance_type in facts.regions[name].instance_types]
        yield Hit(
            path=("hyperpod", "groups", name, "instance_type"),
            message=f"{group.instance_type} is not offered to HyperPod in {environment.region}",
            got=group.instance_type,
            allowed=having,
            fix=f"regions that list it: {', '.join(having) or 'none'}",
            owner="environment",
        )


@environment_rule(
    "SEC001",
    Severity.ERROR,
    Doc(
        title="Cluster endpoint open to the world",
        symptom="Anyone can reach the Kubernetes API and try credentials against it.",
        cause="`public_access_cidrs` holds the whole internet.",
        fix="List the ranges of your offices or pipelines, or leave the list empty for a private endpoint.",
        source="docs.aws.amazon.com: eks cluster-endpoint",
        bad="kubernetes: {public_access_cidrs: [0.0.0.0/0]}",
        good="kubernetes: {public_access_cidrs: [203.0.113.0/24]}",
    ),
)
def open_endpoint(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a public range of the whole internet, or halves that add up to it."""
    for index, cidr in enumerate(context.environment.kubernetes.public_access_cidrs):
        if cidr.prefixlen <= 1:
            yield Hit(
                path=("kubernetes", "public_access_cidrs", index),
                message=f"{cidr} opens the Kubernetes API to the internet",
                got=str(cidr),
                allowed="ranges of /2 or narrower; better, of single networks",
                fix="name the networks that need it, or leave the list empty",
                owner="environment",
            )
