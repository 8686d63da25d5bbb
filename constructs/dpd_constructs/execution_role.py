"""The role of HyperPod nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpd_constructs.keys import through_s3, volume_grants
from dpd_constructs.reasons import wildcard


@dataclass(frozen=True)
class ExecutionRoleProps:
    """Say what the nodes of one HyperPod cluster touch."""

    hyperpod_name: str
    eks_cluster_arn: str
    subnets: Sequence[ec2.ISubnet]
    security_groups: Sequence[ec2.ISecurityGroup]
    lifecycle_bucket: s3.IBucket
    volumes_key: kms.IKey | None


class HyperPodExecutionRole(Construct):
    """Make the role that the instances of every group assume.

    The managed policy has no EC2 rights, without which the service cannot even find its subnets
    (developer guide, page sagemaker-hyperpod-prerequisites, from which the actions come). FSx is
    missing on purpose: only scripts that mount a file system call it
    (awslabs/awsome-distributed-ai#1202), and ours mounts none.
    """

    def __init__(self, scope: Construct, construct_id: str, props: ExecutionRoleProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self._stack = Stack.of(self)
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            description=f"Instances of the HyperPod cluster {props.hyperpod_name}",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),  # pyright: ignore[reportArgumentType] - jsii types
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
            ],
            inline_policies={
                "network": iam.PolicyDocument(statements=[*self._interfaces(), self._read_network()]),
                "images": iam.PolicyDocument(statements=self._images()),
                "cluster": iam.PolicyDocument(statements=self._cluster()),
            },
        )

    def _arn(self, service: str, resource: str, *, account: str | None = None) -> str:
        stack = self._stack
        owner = stack.account if account is None else account
        return f"arn:{stack.partition}:{service}:{stack.region}:{owner}:{resource}"

    def _interfaces(self) -> Sequence[iam.PolicyStatement]:
        interfaces = self._arn("ec2", "network-interface/*")
        subnets = [self._arn("ec2", f"subnet/{subnet.subnet_id}") for subnet in self._props.subnets]
        groups = [
            self._arn("ec2", f"security-group/{group.security_group_id}")
            for group in self._props.security_groups
        ]
        instances = self._arn("ec2", "instance/*", account="*")
        return [
            wildcard(
                "MakeInterfaces",
                "An interface has no id before it is made; subnet and groups are named.",
                actions=["ec2:CreateNetworkInterface"],
                resources=[interfaces, *subnets, *groups],
            ),
            wildcard(
                "AttachInterfaces",
                "Interfaces are made at run time, and the instances belong to an account of the service.",
                actions=[
                    "ec2:AttachNetworkInterface",
                    "ec2:DetachNetworkInterface",
                    "ec2:ModifyNetworkInterfaceAttribute",
                ],
                resources=[interfaces, instances, *groups],
            ),
            wildcard(
                "UseInterfaces",
                "The interfaces of nodes are made at run time.",
                actions=[
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:CreateNetworkInterfacePermission",
                    "ec2:CreateTags",
                    "ec2:DeleteNetworkInterface",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                resources=[interfaces],
            ),
        ]

    def _read_network(self) -> iam.PolicyStatement:
        return wildcard(
            "ReadNetwork",
            "EC2 names no resource type for reading, nor for taking an interface permission back.",
            actions=[
                "ec2:DeleteNetworkInterfacePermission",
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeInstances",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeTags",
                "ec2:DescribeVpcs",
            ],
            conditions={"StringEquals": {"aws:RequestedRegion": self._stack.region}},
        )

    def _images(self) -> Sequence[iam.PolicyStatement]:
        return [
            wildcard(
                "PullImages",
                "Accounts of AWS serve the operator and the add-ons, and a model's image may lie in any "
                "account and region that lets this one pull.",
                actions=[
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                resources=[f"arn:{self._stack.partition}:ecr:*:*:repository/*"],
            ),
            wildcard(
                "LogInToRegistries",
                "A registry token belongs to no repository.",
                actions=["ecr:GetAuthorizationToken"],
            ),
        ]

    def _cluster(self) -> Sequence[iam.PolicyStatement]:
        bucket = self._props.lifecycle_bucket
        return [
            iam.PolicyStatement(
                actions=["eks-auth:AssumeRoleForPodIdentity"], resources=[self._props.eks_cluster_arn]
            ),
            # The VPC CNI attaches further interfaces of a HyperPod node through SageMaker
            # (aws/amazon-vpc-cni-k8s#3874).
            wildcard(
                "AttachThroughSageMaker",
                "The cluster's id is known only after the cluster has been made with this role.",
                actions=["sagemaker:AttachClusterNodeNetworkInterface"],
                resources=[self._arn("sagemaker", "cluster/*")],
            ),
            wildcard(
                "ReadAlarms",
                "Rolling updates stop on alarms that whoever starts the update names.",
                actions=["cloudwatch:DescribeAlarms"],
                resources=[self._arn("cloudwatch", "alarm:*")],
            ),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn]),
            # Objects, not the bucket: the bucket's ARN alone grants no read (awsome-distributed-ai#1045).
            wildcard(
                "ReadScripts",
                "The folder of a script names its content, which changes.",
                actions=["s3:GetObject"],
                resources=[bucket.arn_for_objects("lifecycle/*")],
            ),
            *through_s3(bucket.encryption_key, self._stack, "kms:Decrypt"),
            *volume_grants(self._props.volumes_key),
        ]
