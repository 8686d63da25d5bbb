"""The doors of a closed network: one endpoint for each AWS service that something in the VPC calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from dpd.facts import Facts
from dpd.network_facts import EndpointPolicy
from dpd.spec.endpoints import interface_services
from dpd.spec.environment import Environment


@dataclass(frozen=True)
class VpcEndpointsProps:
    """Say which services are needed, and from where they are called.

    ``subnets`` has one for each zone, since an endpoint takes one interface a zone. ``cidrs`` are all
    ranges of the VPC: nodes live in a secondary one.
    """

    environment: Environment
    facts: Facts
    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    cidrs: Sequence[str]
    file_systems: bool


class VpcEndpoints(Construct):
    """Make the interface endpoints, reachable over TLS from the VPC's ranges and from nowhere else."""

    def __init__(self, scope: Construct, construct_id: str, props: VpcEndpointsProps) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=props.vpc,
            description="Interface endpoints: TLS from every range of the VPC",
            allow_all_outbound=False,
        )
        for cidr in props.cidrs:
            group.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(443), f"TLS from {cidr}")
        services = interface_services(props.environment, props.facts, file_systems=props.file_systems)
        for service, policy in services.items():
            ec2.CfnVPCEndpoint(
                self,
                service,
                vpc_id=props.vpc.vpc_id,
                vpc_endpoint_type="Interface",
                service_name=f"com.amazonaws.{stack.region}.{service}",
                subnet_ids=[subnet.subnet_id for subnet in props.subnets],
                security_group_ids=[group.security_group_id],
                private_dns_enabled=True,
                policy_document=_policy(policy, stack),
            )


def _policy(policy: EndpointPolicy, stack: cdk.Stack) -> iam.PolicyDocument | None:
    """Return the policy of an interface endpoint; None is AWS's default, which lets everybody through."""
    if policy == "open":
        return None
    own = {"aws:PrincipalAccount": stack.account}
    if policy == "caller_and_owner":
        own["aws:ResourceAccount"] = stack.account
    statements = [_allow(["*"], ["*"], own)]
    if policy == "web_identity":
        # The caller has no account before it has the role, so the role's account is what can be held.
        actions = ["sts:AssumeRoleWithWebIdentity"]
        statements.append(_allow(actions, ["*"], {"aws:ResourceAccount": stack.account}))
    return iam.PolicyDocument(statements=statements)


def s3_endpoint(
    scope: Construct, vpc_id: str, route_table_id: str, environment: Environment, facts: Facts
) -> None:
    """Keep weights off the NAT gateway; the operator's certificate download also wants it (P-31).

    In a closed network it is the only way to S3 and lets through no bucket but this account's, those
    of AWS that parts of the system depend on, and an existing bucket of weights.
    """
    stack = cdk.Stack.of(scope)
    closed = environment.network.closed
    ec2.CfnVPCEndpoint(
        scope,
        "S3Endpoint",
        vpc_id=vpc_id,
        vpc_endpoint_type="Gateway",
        service_name=f"com.amazonaws.{stack.region}.s3",
        route_table_ids=[route_table_id],
        policy_document=_s3_policy(stack, environment, facts) if closed else None,
    )


def _s3_policy(stack: cdk.Stack, environment: Environment, facts: Facts) -> iam.PolicyDocument:
    own = {"aws:PrincipalAccount": stack.account}
    statements = [_allow(["s3:*"], ["*"], {**own, "aws:ResourceAccount": stack.account})]
    if environment.weights.bucket:
        arn = f"arn:{stack.partition}:s3:::{environment.weights.bucket}"
        statements.append(_allow(["s3:GetObject", "s3:ListBucket"], [arn, f"{arn}/*"], own))
    names = {"region": environment.region, "regionname": environment.region.replace("-", "")}
    by_actions: dict[tuple[str, ...], list[str]] = {}
    for row in facts.service_buckets.values():
        arn = f"arn:{stack.partition}:s3:::{row.bucket.format(**names)}/*"
        by_actions.setdefault(row.actions, []).append(arn)
    # AWS signs these links itself, so the caller is another account.
    statements += [_allow(actions, arns, {}) for actions, arns in by_actions.items()]
    return iam.PolicyDocument(statements=statements)


def _allow(actions: Sequence[str], resources: Sequence[str], equals: dict[str, str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()],  # pyright: ignore[reportArgumentType] - jsii types
        actions=list(actions),
        resources=list(resources),
        conditions={"StringEquals": equals} if equals else None,
    )
