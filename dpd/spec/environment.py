"""The schema of an environment on HyperPod: where models run."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from dpd.closed_model import ClosedModel
from dpd.spec.base_environment import KNOWN_BACKEND, BaseEnvironment
from dpd.spec.cost_control import Budget, Schedule
from dpd.spec.existing import ExistingCluster, ExistingNetwork, ExistingWeights
from dpd.spec.guard import Encryption, Endpoint
from dpd.spec.instance_group import Groups, Maintenance, ZoneId
from dpd.spec.mirror import Mirror, MirroredChart, MirroredImage


def _between(widest: int, narrowest: int) -> AfterValidator:
    """Bound the prefix length of a range."""

    def check(value: IPv4Network) -> IPv4Network:
        if not widest <= value.prefixlen <= narrowest:
            raise ValueError(f"wants a range from /{widest} to /{narrowest}, got {value}")
        return value

    return AfterValidator(check)


# AWS allows /16 to /28; four small subnets of at least 16 addresses fit a /26.
VpcCidr = Annotated[IPv4Network, _between(16, 26), PlainSerializer(str, return_type=str)]
SubnetCidr = Annotated[IPv4Network, _between(16, 28), PlainSerializer(str, return_type=str)]


def _own_tags(tags: dict[str, str]) -> dict[str, str]:
    reserved = [key for key in tags if key.lower().startswith(_RESERVED_TAGS)]
    if reserved:
        raise ValueError(
            f"tag keys that begin with {' or '.join(_RESERVED_TAGS)} are not yours: {reserved[0]!r}"
        )
    return tags


AnyCidr = Annotated[IPv4Network, PlainSerializer(str, return_type=str)]
# AWS allows 50 tags a resource, of which the stacks, CloudFormation and EKS set some; keys that begin with
# aws: are AWS's (Tagging best practices, limits).
TagKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9 _.:/=+@-]{1,128}$")]
TagValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9 _.:/=+@-]{0,256}$")]
_RESERVED_TAGS = ("aws:", "hyperpod-dpd/")
PrincipalArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/.+$")]
EndpointService = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]+$", examples=["ecr.api"])]
# The operator's CRD admits no other server for its Prometheus triggers.
PrometheusUrl = Annotated[
    str,
    Field(
        pattern=r"^https://aps-workspaces\.[a-z0-9-]+(\.[a-z0-9-]+)*\.amazonaws\.com/workspaces/ws-[a-zA-Z0-9-]+$",
        examples=["https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"],
    ),
]


class Network(ClosedModel):
    """Lay out the VPC."""

    vpc_cidr: VpcCidr = IPv4Network("10.0.0.0/16")
    """Primary range: public, control-plane and load-balancer subnets."""
    gpu_subnet_cidr: SubnetCidr = IPv4Network("10.1.0.0/16")
    """Secondary range of the one private subnet in which every HyperPod node lives."""
    system_subnet_cidr: SubnetCidr | None = None
    """Further secondary range, for a system group whose `zone_id` is not the GPU zone."""
    control_plane_zone_ids: tuple[ZoneId, ...] = Field(default=(), max_length=2)
    """Two zones for the EKS control plane and load balancers; empty: the GPU zone and one more."""
    closed: bool = False
    """True: no way to the internet; endpoints of AWS services, and images that `dpd mirror` copied."""
    further_endpoints: tuple[EndpointService, ...] = ()
    """Further interface endpoints of a closed network, such as bedrock-runtime."""
    omitted_endpoints: tuple[EndpointService, ...] = ()
    """Interface endpoints to leave out, because the region lacks the service or nobody needs it."""
    placement_group: str = "none"
    """`none`, `create`, or the name of an existing group. HyperPod nodes cannot join one."""
    existing: ExistingNetwork | None = None
    """Network to use instead of making one."""


class Kubernetes(ClosedModel):
    """Choose the EKS control plane."""

    version: Annotated[str, Field(pattern=r"^1\.[0-9]{2}$")] = "1.34"
    public_access_cidrs: tuple[AnyCidr, ...] = ()
    """Empty: the API endpoint is private only."""
    admin_arns: tuple[PrincipalArn, ...] = ()
    """IAM roles or users that may use kubectl as administrators; nobody else can, not even the deployer."""
    existing: ExistingCluster | None = None
    """Cluster to use instead of making one; `version` states what it runs."""


class HyperPod(ClosedModel):
    """Describe the SageMaker HyperPod cluster."""

    groups: Groups
    node_recovery: Literal["automatic", "none"] = "automatic"
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = ()
    maintenance: Maintenance | None = None
    """Window in which nodes move to the newest image; default: only when asked to."""
    lifecycle_bucket: str | None = None
    """Existing bucket for lifecycle scripts; default: one that the stack makes."""
    chart_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Commit of aws/sagemaker-hyperpod-cli with the base chart; default: the one in the facts."""
    chart_archive_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of `git archive` of the chart folder; checked before the chart is installed."""


class Operator(ClosedModel):
    """Pin the inference operator's add-on."""

    addon_version: str | None = None
    """Full version, such as v1.4.0-eksbuild.1."""
    configuration: dict[str, Any] = {}
    """Further configuration values, merged over the package's own."""
    execution_role_name: str | None = None
    """Name of the operator's role; default: one with the prefix that the operator demands."""
    tls_bucket: str | None = None
    """Existing bucket for certificates; default: one that the stack makes."""


class Observability(ClosedModel):
    """Switch observability on or off."""

    enabled: bool = False
    prometheus_url: PrometheusUrl | None = None
    """Amazon Managed Service for Prometheus workspace that autoscaling queries."""


class Promotion(ClosedModel):
    """Say where configuration comes from before it reaches this environment."""

    from_: Annotated[str | None, Field(alias="from")] = None
    manual_approval: bool = False


class Environment(BaseEnvironment):
    """Describe one environment on HyperPod."""

    backend: Annotated[Literal["hyperpod"], KNOWN_BACKEND] = "hyperpod"
    account: Annotated[str, Field(pattern=r"^[0-9]{12}$")] | None = None
    """AWS account; without it the templates are account-agnostic."""
    region: Annotated[str, Field(examples=["us-west-2"])]
    gpu_zone_id: ZoneId
    """The one zone, by id, for every GPU node."""
    network: Network = Network()
    kubernetes: Kubernetes = Kubernetes()
    hyperpod: HyperPod
    operator: Operator = Operator()
    encryption: Encryption = Encryption()
    endpoint: Endpoint = Endpoint()
    addons: dict[str, str] = {}
    """Version per EKS add-on, where it differs from the facts."""
    weights: ExistingWeights = ExistingWeights()
    mirror: Mirror = Mirror()
    """Written by `dpd mirror --apply` to config/mirror/<name>.yaml, and read from there."""
    observability: Observability = Observability()
    promotion: Promotion = Promotion()
    budget: Budget | None = None
    """Alarm on monthly cost; needs the tag hyperpod-dpd/environment activated for cost allocation."""
    schedule: Schedule | None = None
    """Hours without GPU nodes; never in a protected environment."""
    protected: bool = False
    """True: digests required, no destroy without confirmation, data retained."""
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=40), AfterValidator(_own_tags)] = {}

    @property
    def system_zone_id(self) -> str:
        """Return the zone of the system group."""
        return self.hyperpod.groups.system.zone_id or self.gpu_zone_id

    @property
    def makes_buckets(self) -> bool:
        """Tell whether the stacks make any bucket: of weights, of scripts or of certificates."""
        return not (self.weights.bucket and self.hyperpod.lifecycle_bucket and self.operator.tls_bucket)

    @property
    def mirrored_chart(self) -> MirroredChart | None:
        """Return the copy of the base chart that a closed network installs; None: from its repository."""
        return self.mirror.chart if self.network.closed else None

    def mirrored_image(self, reference: str) -> MirroredImage | None:
        """Return the copy of an image that a closed network pulls; None where there is none, or no need."""
        return self.mirror.images.get(reference) if self.network.closed else None
