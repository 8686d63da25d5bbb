"""The schema of what an environment brings along instead of letting the stacks make it, each by its id."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpd.closed_model import ClosedModel

VpcId = Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$", examples=["vpc-0123456789abcdef0"])]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$", examples=["subnet-0123456789abcdef0"])]
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$", examples=["sg-0123456789abcdef0"])]
BucketName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", examples=["our-model-weights"])
]
RoleArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$",
        examples=["arn:aws:iam::111122223333:role/kubectl"],
    ),
]
OidcProviderArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:oidc-provider/oidc\.eks\.[a-z0-9-]+\.amazonaws\.com.*/id/[0-9A-F]+$",
        examples=[
            "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
        ],
    ),
]
KmsKeyArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[0-9a-f-]+$",
        examples=["arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"],
    ),
]


class ExistingSecurityGroup(ClosedModel):
    """Name a security group of the nodes, and say which of its own traffic it lets through."""

    id: SecurityGroupId
    self_ingress: bool = False
    """True: it admits all traffic from itself, in a rule that names the group."""
    self_egress: bool = False
    """True: it lets all traffic out to itself, in a rule that names the group."""


class ExistingNetwork(ClosedModel):
    """Name the VPC in which everything stands; the stacks add nothing to it but interfaces."""

    vpc_id: VpcId
    gpu_subnet_id: SubnetId
    """Private subnet in the GPU zone; `network.gpu_subnet_cidr` states its range."""
    control_plane_subnet_ids: Annotated[
        tuple[SubnetId, ...], Field(min_length=2, examples=["[subnet-0123456789abcdef0, subnet-1...]"])
    ]
    """Private subnets in at least two zones, for EKS, its kubectl function and the base chart's build."""
    security_groups: Annotated[
        tuple[ExistingSecurityGroup, ...],
        Field(min_length=1, max_length=5, examples=["[{id: sg-0123456789abcdef0}]"]),
    ]
    """Groups of every node; the first one also goes to the control plane that the stacks make."""


class ExistingCluster(ClosedModel):
    """Name the EKS cluster that HyperPod joins; it must stand in `network.existing`."""

    cluster_name: Annotated[str, Field(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", examples=["our-cluster"])]
    kubectl_role_arn: RoleArn
    """Administrator of the cluster that Lambda may assume, with eks:DescribeCluster and VPC access."""
    oidc_provider_arn: OidcProviderArn
    """IAM OIDC provider of the cluster, for roles of service accounts."""
    security_group_id: SecurityGroupId
    """Security group that EKS made for the cluster; whoever carries it reaches the private endpoint."""
    addons: tuple[str, ...] = ()
    """Add-ons that the cluster has already, such as cert-manager; they are not installed again."""
    authentication_mode: Literal["API", "API_AND_CONFIG_MAP", "CONFIG_MAP"] = "API"
    """How the cluster knows people; HyperPod needs access entries, so not `CONFIG_MAP`."""


class ExistingWeights(ClosedModel):
    """Name where weights lie already."""

    bucket: BucketName | None = None
    """Existing bucket of model weights; default: one that the stack makes."""
    kms_key_arn: KmsKeyArn | None = None
    """Customer key of `bucket`, where it has one: pods that read weights may decrypt with it."""
    fsx_security_group_id: SecurityGroupId | None = None
    """Security group of an existing FSx for Lustre file system, where it is not the nodes' own."""
