"""NET: which ranges AWS lets stand side by side in one VPC."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

from dpd.facts import Facts
from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule

_OTHER = "other"


@environment_rule(
    "NET012",
    Severity.ERROR,
    Doc(
        title="Secondary range that AWS refuses beside the primary one",
        symptom="CloudFormation fails on the secondary range with InvalidVpc.Range, after the VPC exists.",
        cause="A VPC holds ranges of one private block only, and some parts of a block exclude each other.",
        fix="Choose a range of the block in which `vpc_cidr` lies, or of 100.64.0.0/10.",
        source="docs.aws.amazon.com: vpc-cidr-blocks",
        bad="network: {vpc_cidr: 10.0.0.0/16, gpu_subnet_cidr: 172.16.0.0/16}",
        good="network: {vpc_cidr: 10.0.0.0/16, gpu_subnet_cidr: 100.64.0.0/16}",
    ),
)
def ranges_go_together(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare each secondary range with those associated before it; overlaps are NET002's and CAP016's."""
    network = context.environment.network
    if network.existing is not None:
        return
    associated = [network.vpc_cidr]
    for key, cidr in (
        ("gpu_subnet_cidr", network.gpu_subnet_cidr),
        ("system_subnet_cidr", network.system_subnet_cidr),
    ):
        if cidr is None or any(cidr.overlaps(other) for other in associated):
            continue
        for other in associated:
            refused = _refused(other, cidr, context.facts)
            if refused is not None:
                yield Hit(
                    path=("network", key),
                    message=f"AWS adds no range of {refused} to a VPC that has {other}",
                    got=str(cidr),
                    allowed=f"a range of the same private block as {network.vpc_cidr}, or of 100.64.0.0/10",
                    fix="choose another range",
                    owner="environment",
                )
                break
        associated.append(cidr)


def _refused(has: IPv4Network, wanted: IPv4Network, facts: Facts) -> str | None:
    """Return the refused range that holds ``wanted``, beside ``has``; None where it may stand."""
    blocks = {name: IPv4Network(name) for name in facts.vpc_ranges if name != _OTHER}
    rows = [facts.vpc_ranges[name] for name, block in blocks.items() if has.subnet_of(block)]
    for row in rows or [facts.vpc_ranges[_OTHER]]:
        for name in row.refuses:
            if wanted.subnet_of(IPv4Network(name)):
                return name
    return None
