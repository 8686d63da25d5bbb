"""HyperPod's base Helm chart, installed while the stack deploys and never while it synthesises.

AWS publishes the chart only as a folder of a Git repository, and creating a HyperPod cluster fails
without it. A Lambda function has no git, so a CodeBuild build does the work.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.base_chart import chart_pin
from dpd.spec.environment import Environment
from dpd_constructs.base_chart_values import base_chart_values
from dpd_constructs.cluster_access import administrator
from dpd_constructs.kubectl import kubectl_layer
from dpd_constructs.network_parts import NetworkParts
from dpd_constructs.waiter import Waiter, WaiterProps

_SCRIPTS: Final = Path(__file__).parent / "base_chart_scripts"
# The build ends itself as TIMED_OUT and so names its phase; the waiter waits for queue and build.
_QUEUE_MINUTES: Final = 5
_BUILD_MINUTES: Final = 20
_HELM_TIMEOUT: Final = "10m"
_ACCESS_WAIT_S: Final = 180


@dataclass(frozen=True)
class BaseChartProps:
    """Say which chart goes into which cluster."""

    environment: Environment
    facts: Facts
    network: NetworkParts
    cluster: eks.ICluster


class BaseChart(Construct):
    """Install the chart; whatever needs it depends on this construct.

    The output `ArchiveSha256` is what the build measured, for hyperpod.chart_archive_sha256.
    """

    def __init__(self, scope: Construct, construct_id: str, props: BaseChartProps) -> None:
        super().__init__(scope, construct_id)
        self._log = logs.LogGroup(self, "Log")
        # A layer of its own: every change makes a new version, and CloudFormation refuses to change
        # a value that another stack imports.
        tools = kubectl_layer(
            self, "Tools", kubernetes_version=props.environment.kubernetes.version, facts=props.facts
        )
        role = self._role(props, tools)
        project = self._project(props, tools, role)
        release = self._release(props, project)
        # The chart creates cluster roles, bindings and namespaces; Kubernetes lets nobody grant more than
        # they hold, and only an administrator holds everything that the chart grants.
        access = administrator(self, "Access", cluster=props.cluster, principal_arn=role.role_arn)
        # Deletion runs a build as well, so the build and its rights must outlive the release.
        release.node.add_dependency(project, role, access)
        resource = cast("cdk.CustomResource", release.node.find_child("Resource"))
        cdk.CfnOutput(self, "ArchiveSha256", value=resource.get_att_string("ARCHIVE_SHA256_MEASURED"))

    def _role(self, props: BaseChartProps, tools: lambda_.LayerVersion) -> iam.Role:
        role = iam.Role(
            self,
            "BuildRole",
            assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"),  # pyright: ignore[reportArgumentType] - jsii types
        )
        role.add_to_policy(
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[props.cluster.cluster_arn])
        )
        # helm and kubectl come from the layer as Lambda keeps it: its API gives a link and the digest
        # of the archive. The layer's asset in the bootstrap bucket has no digest, needs rights on that
        # bucket, and may be collected by `cdk gc`.
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:GetLayerVersion"], resources=[tools.layer_version_arn])
        )
        mirrored = props.environment.mirrored_chart
        if mirrored is not None:
            # This one object; its name holds the digest of its content.
            arn = f"arn:{cdk.Stack.of(self).partition}:s3:::{mirrored.uri.removeprefix('s3://')}"
            role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[arn]))
        return role

    def _project(
        self, props: BaseChartProps, tools: lambda_.LayerVersion, role: iam.Role
    ) -> codebuild.Project:
        scripts = s3_assets.Asset(self, "Scripts", path=str(_SCRIPTS))
        variables = {
            "CLUSTER_NAME": props.cluster.cluster_name,
            "KUBECTL_LAYER_ARN": tools.layer_version_arn,
            "CLUSTER_IS_OURS": "false" if props.environment.kubernetes.existing else "true",
            "ACCESS_WAIT_S": str(_ACCESS_WAIT_S),
            "HELM_TIMEOUT": _HELM_TIMEOUT,
        }
        return codebuild.Project(
            self,
            "Build",
            description="Installs the base chart of HyperPod",
            role=role,  # pyright: ignore[reportArgumentType] - jsii types
            source=codebuild.Source.s3(bucket=scripts.bucket, path=scripts.s3_object_key),
            environment=codebuild.BuildEnvironment(
                # The kubectl layer holds amd64 binaries.
                build_image=codebuild.LinuxBuildImage.AMAZON_LINUX_2023_6,
                compute_type=codebuild.ComputeType.SMALL,
                environment_variables={
                    name: codebuild.BuildEnvironmentVariable(value=value) for name, value in variables.items()
                },
            ),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self._log)
            ),
            grant_report_group_permissions=False,
            # The API endpoint is private; EKS's own group lets its members reach it.
            vpc=props.network.vpc,
            subnet_selection=ec2.SubnetSelection(subnets=list(props.network.control_plane_subnets)),
            security_groups=[props.cluster.cluster_security_group],
            timeout=cdk.Duration.minutes(_BUILD_MINUTES),
            queued_timeout=cdk.Duration.minutes(_QUEUE_MINUTES),
        )

    def _release(self, props: BaseChartProps, project: codebuild.Project) -> Waiter:
        start = iam.PolicyStatement(actions=["codebuild:StartBuild"], resources=[project.project_arn])
        follow = iam.PolicyStatement(actions=["codebuild:BatchGetBuilds"], resources=[project.project_arn])
        reasons = iam.PolicyStatement(actions=["logs:GetLogEvents"], resources=[self._log.log_group_arn])
        release = Waiter(
            self,
            "Release",
            WaiterProps(
                handler="base_chart.handler",
                statements=[follow, reasons],
                starting=[start],
                timeout_s=60 * (_QUEUE_MINUTES + _BUILD_MINUTES),
                query_interval_s=15,
            ),
        )
        release.wait(
            release,
            "Resource",
            resource_type="Custom::HyperPodBaseChart",
            properties={"Project": project.project_name, "Variables": _variables(props)},
        )
        return release


def _variables(props: BaseChartProps) -> dict[str, str]:
    """Return what the build depends on; a change of any of it upgrades the release."""
    environment, chart = props.environment, props.facts.charts["hyperpod-base"]
    pin, mirrored = chart_pin(environment, props.facts), environment.mirrored_chart
    values = base_chart_values(environment, props.facts)
    return {
        "REPOSITORY": mirrored.uri if mirrored else pin.repository,
        "COMMIT": pin.commit,
        "FOLDER": pin.folder,
        "ARCHIVE_SHA256": mirrored.sha256 if mirrored else pin.archive_sha256,
        "RELEASE": chart.release,
        "NAMESPACE": chart.namespace,
        "VALUES": json.dumps(values, separators=(",", ":"), sort_keys=True),
    }
