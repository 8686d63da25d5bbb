"""What the load balancer controller inside the inference operator may do.

AWS ships no managed policy for it. The actions are those that AWS Load Balancer Controller 2.13
needs (docs/install/iam_policy.json of kubernetes-sigs/aws-load-balancer-controller) for application
load balancers alone: nothing for network load balancers, Cognito, Outposts or address pools, which
the operator does not make. Whatever the controller changes must carry its cluster tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from dpd_constructs.reasons import wildcard

_TAG: Final = "elbv2.k8s.aws/cluster"
_TAGGED: Final = {"Null": {f"aws:ResourceTag/{_TAG}": "false"}}
_TAGGING: Final = {"Null": {f"aws:RequestTag/{_TAG}": "false"}}
# Tags of something that has the cluster tag may change, the cluster tag itself may not.
_RETAGGING: Final = {
    "Null": {f"aws:RequestTag/{_TAG}": "true", f"aws:ResourceTag/{_TAG}": "false"},
}

_BY_TAG: Final = (
    "The controller names what it makes; the condition holds it to what carries the tag of a cluster."
)
# Neither of its two statements demands the cluster tag.
_BY_BALANCER: Final = (
    "A listener is made on a load balancer, which has the cluster tag, and its rules hang on the listener."
)

_READ: Final = (
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstances",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeVpcs",
    "ec2:GetSecurityGroupsForVpc",
    "elasticloadbalancing:DescribeCapacityReservation",
    "elasticloadbalancing:DescribeListenerAttributes",
    "elasticloadbalancing:DescribeListenerCertificates",
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeLoadBalancerAttributes",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeSSLPolicies",
    "elasticloadbalancing:DescribeTags",
    "elasticloadbalancing:DescribeTargetGroupAttributes",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
    "acm:DescribeCertificate",
    "acm:ListCertificates",
)
# The controller asks these services about every load balancer, whether they are used or not.
_PROTECTION: Final = (
    "shield:CreateProtection",
    "shield:DeleteProtection",
    "shield:DescribeProtection",
    "shield:GetSubscriptionState",
    "waf-regional:AssociateWebACL",
    "waf-regional:DisassociateWebACL",
    "waf-regional:GetWebACL",
    "waf-regional:GetWebACLForResource",
    "wafv2:AssociateWebACL",
    "wafv2:DisassociateWebACL",
    "wafv2:GetWebACL",
    "wafv2:GetWebACLForResource",
)


def alb_controller_statements(stack: Stack, *, vpc_arn: str) -> dict[str, Sequence[iam.PolicyStatement]]:
    """Return the statements by policy name, limited to the stack's account and region."""
    elb = f"arn:{stack.partition}:elasticloadbalancing:{stack.region}:{stack.account}"
    return {
        "read": _read(stack),
        "security-groups": _security_groups(stack, vpc_arn),
        "load-balancers": [*_make_load_balancers(elb), *_change_load_balancers(elb)],
        "listeners": _listeners(elb),
    }


def _read(stack: Stack) -> list[iam.PolicyStatement]:
    return [
        wildcard("ReadBalancers", "Reading names no resource.", actions=_READ),
        wildcard(
            "ReadProtection",
            "A web ACL or a protection may be anywhere in the account, and Shield is global.",
            actions=_PROTECTION,
        ),
        wildcard(
            "ServiceLinkedRole",
            "The name of the role is the service's business; the condition names the service.",
            actions=["iam:CreateServiceLinkedRole"],
            resources=[
                f"arn:{stack.partition}:iam::{stack.account}:role/aws-service-role/"
                "elasticloadbalancing.amazonaws.com/*"
            ],
            conditions={"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
    ]


def _security_groups(stack: Stack, vpc_arn: str) -> list[iam.PolicyStatement]:
    groups = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:security-group/*"
    return [
        wildcard(
            "OpenGroups",
            "The controller also opens the nodes' group, which it did not make and which has no tag; "
            "the condition names the VPC.",
            actions=["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"],
            resources=[groups],
            conditions={"ArnEquals": {"ec2:Vpc": vpc_arn}},
        ),
        wildcard(
            "MakeGroups",
            "A group is new, so it can be held only by the VPC that it is made in.",
            actions=["ec2:CreateSecurityGroup"],
            resources=[groups, vpc_arn],
        ),
        wildcard(
            "TagNewGroups",
            _BY_TAG,
            actions=["ec2:CreateTags"],
            resources=[groups],
            conditions={"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}, **_TAGGING},
        ),
        wildcard(
            "RetagGroups",
            _BY_TAG,
            actions=["ec2:CreateTags", "ec2:DeleteTags"],
            resources=[groups],
            conditions=_RETAGGING,
        ),
        wildcard(
            "DeleteGroups",
            _BY_TAG,
            actions=["ec2:DeleteSecurityGroup"],
            resources=[groups],
            conditions=_TAGGED,
        ),
    ]


def _make_load_balancers(elb: str) -> list[iam.PolicyStatement]:
    balancers, targets = f"{elb}:loadbalancer/app/*", f"{elb}:targetgroup/*"
    return [
        wildcard(
            "MakeBalancers",
            _BY_TAG,
            actions=["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"],
            resources=[balancers, targets],
            conditions=_TAGGING,
        ),
        wildcard(
            "TagNewBalancers",
            _BY_TAG,
            actions=["elasticloadbalancing:AddTags"],
            resources=[balancers, targets],
            conditions={
                "StringEquals": {
                    "elasticloadbalancing:CreateAction": ["CreateLoadBalancer", "CreateTargetGroup"]
                },
                **_TAGGING,
            },
        ),
        wildcard(
            "RetagBalancers",
            _BY_TAG,
            actions=["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            resources=[balancers, targets],
            conditions=_RETAGGING,
        ),
    ]


def _change_load_balancers(elb: str) -> list[iam.PolicyStatement]:
    balancers, targets = f"{elb}:loadbalancer/app/*", f"{elb}:targetgroup/*"
    return [
        wildcard(
            "ChangeBalancers",
            _BY_TAG,
            actions=[
                "elasticloadbalancing:DeleteLoadBalancer",
                "elasticloadbalancing:DeleteTargetGroup",
                "elasticloadbalancing:ModifyCapacityReservation",
                "elasticloadbalancing:ModifyLoadBalancerAttributes",
                "elasticloadbalancing:ModifyTargetGroup",
                "elasticloadbalancing:ModifyTargetGroupAttributes",
                "elasticloadbalancing:SetIpAddressType",
                "elasticloadbalancing:SetSecurityGroups",
                "elasticloadbalancing:SetSubnets",
            ],
            resources=[balancers, targets],
            conditions=_TAGGED,
        ),
        wildcard(
            "ChangeTargets",
            _BY_TAG,
            actions=[
                "elasticloadbalancing:DeregisterTargets",
                "elasticloadbalancing:RegisterTargets",
            ],
            resources=[targets],
            conditions=_TAGGED,
        ),
    ]


def _listeners(elb: str) -> list[iam.PolicyStatement]:
    balancers = f"{elb}:loadbalancer/app/*"
    listeners, rules = f"{elb}:listener/app/*", f"{elb}:listener-rule/app/*"
    return [
        wildcard(
            "ChangeListeners",
            _BY_BALANCER,
            actions=[
                "elasticloadbalancing:AddListenerCertificates",
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateRule",
                "elasticloadbalancing:DeleteListener",
                "elasticloadbalancing:DeleteRule",
                "elasticloadbalancing:ModifyListener",
                "elasticloadbalancing:ModifyListenerAttributes",
                "elasticloadbalancing:ModifyRule",
                "elasticloadbalancing:RemoveListenerCertificates",
                "elasticloadbalancing:RemoveTags",
                "elasticloadbalancing:SetRulePriorities",
            ],
            resources=[listeners, rules],
        ),
        wildcard(
            "MakeListeners",
            _BY_BALANCER,
            actions=["elasticloadbalancing:CreateListener", "elasticloadbalancing:SetWebAcl"],
            resources=[balancers],
        ),
    ]
