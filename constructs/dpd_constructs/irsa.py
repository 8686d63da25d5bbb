"""Roles that one Kubernetes service account may assume through the cluster's OIDC provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aws_cdk import CfnJson
from aws_cdk import aws_iam as iam
from constructs import Construct

_AUDIENCE: Final = "sts.amazonaws.com"


@dataclass(frozen=True)
class IrsaRoleProps:
    """Say who assumes the role, and what it may do.

    ``service_account`` is `namespace:name`. ``also_assumed_by`` names an AWS
    service that uses the same role; ``role_name`` is only for a name that somebody demands.
    """

    oidc_provider: iam.IOpenIdConnectProvider
    service_account: str
    inline_policies: Mapping[str, Sequence[iam.PolicyStatement]] = field(
        default_factory=dict[str, Sequence[iam.PolicyStatement]]
    )
    managed_policies: Sequence[str] = ()
    role_name: str | None = None
    also_assumed_by: str | None = None


class IrsaRole(Construct):
    """Make a role with exactly one subject and one audience.

    HyperPod's operator and drivers are documented with OIDC trust only, hence no Pod Identity. A
    subject that differs by one word fails with AssumeRoleWithWebIdentity 403 at run time.
    """

    def __init__(self, scope: Construct, construct_id: str, props: IrsaRoleProps) -> None:
        super().__init__(scope, construct_id)
        issuer = props.oidc_provider.open_id_connect_provider_issuer
        # The keys hold the issuer, which exists only after deployment; JSON keys cannot be tokens.
        conditions = CfnJson(
            self,
            "Trust",
            value={
                f"{issuer}:aud": _AUDIENCE,
                f"{issuer}:sub": f"system:serviceaccount:{props.service_account}",
            },
        )
        trusted: iam.PrincipalBase = iam.OpenIdConnectPrincipal(
            props.oidc_provider, {"StringEquals": conditions}
        )
        if props.also_assumed_by:
            trusted = iam.CompositePrincipal(
                trusted,  # pyright: ignore[reportArgumentType] - jsii types
                iam.ServicePrincipal(props.also_assumed_by),  # pyright: ignore[reportArgumentType] - jsii types
            )
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            role_name=props.role_name,
            description=f"Service account {props.service_account}",
            assumed_by=trusted,  # pyright: ignore[reportArgumentType] - jsii types
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in props.managed_policies
            ],
            inline_policies={
                name: iam.PolicyDocument(statements=list(statements))
                for name, statements in props.inline_policies.items()
            },
        )
