"""Facts about what nodes reach, pull and carry."""

from __future__ import annotations

from typing import Literal

from dpd.fact import Fact


class ChartImageFact(Fact):
    """Say which image the base chart pulls from outside AWS's registry of the region."""

    reference: str
    repository_key: str
    """Dotted key of the chart's values that holds the repository."""
    tag_key: str
    """Dotted key of the chart's values that holds the tag."""


EndpointPolicy = Literal["caller", "caller_and_owner", "web_identity", "open"]
"""`caller` lets this account's principals through; `caller_and_owner` only to resources of this account;
`web_identity` adds pods, which assume a role of this account without being anybody yet; `open` restricts
nothing, because nobody documents who calls."""


class EndpointFact(Fact):
    """Say why a closed network needs the interface endpoint of one AWS service."""

    why: str
    policy: EndpointPolicy
    when: Literal["always", "models", "prometheus", "fsx"] = "always"
    """`models`: once the environment serves one."""


class ServiceBucketFact(Fact):
    """Name a bucket of AWS that a closed network must reach through its S3 endpoint."""

    bucket: str
    """Name, in which `{region}` stands for us-west-2 and `{regionname}` for uswest2."""
    actions: tuple[str, ...]
    why: str


class NodeLabelFact(Fact):
    """Describe a label that every HyperPod node of a group carries."""

    equals: Literal["region", "cluster", "group", "instance_type", "architecture", "os"] | None = None
    """What its value is, where the configuration knows it."""
    layer: int | None = None
    """Layer of the network topology, 1 being the farthest from the node."""
