"""The scripts that HyperPod runs on a new node, in a bucket that its role may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import custom_resources as cr
from constructs import Construct

from dpd_constructs.call_log import call_log
from dpd_constructs.keys import through_s3
from dpd_constructs.reasons import wildcard

ON_CREATE: Final = "on_create.sh"
"""Entry point, by the name that every instance group states."""
SCRIPT: Final = Path(__file__).parent / "lifecycle_scripts" / ON_CREATE


class LifecycleScripts(Construct):
    """Upload the lifecycle script under a prefix that names its content.

    A changed script gets a new prefix, so that instance groups see a change and a rollback still
    finds the old one. With ``removable`` each upload goes once nothing uses it, so that the versioned
    bucket can go with its stack; otherwise nothing is ever removed. The script travels inside the
    template: a CDK asset lies in a bucket whose name lacks the prefix `sagemaker-` that the node role
    may read, and the deployment construct would add the AWS CLI and broad rights for one small file.
    """

    def __init__(self, scope: Construct, construct_id: str, *, bucket: s3.IBucket, removable: bool) -> None:
        super().__init__(scope, construct_id)
        body = SCRIPT.read_text(encoding="utf-8")
        prefix = f"lifecycle/{hashlib.sha256(body.encode()).hexdigest()[:16]}"
        self.source_s3_uri: str = f"s3://{bucket.bucket_name}/{prefix}/"
        """Where HyperPod fetches the scripts from."""
        place = {"Bucket": bucket.bucket_name, "Key": f"{prefix}/{ON_CREATE}"}
        put = cr.AwsSdkCall(
            service="S3",
            action="putObject",
            parameters={**place, "Body": body, "ContentType": "text/x-shellscript"},
            # The version is what is removed; a bucket of somebody else may have none.
            physical_resource_id=(
                cr.PhysicalResourceId.from_response("VersionId")
                if removable
                else cr.PhysicalResourceId.of(place["Key"])
            ),
            output_paths=["ETag"],
        )
        cr.AwsCustomResource(
            self,
            "Upload",
            on_create=put,
            on_update=put,
            on_delete=_removal(place) if removable else None,
            # The SDK of the Lambda runtime knows this call; fetching another needs the network.
            install_latest_aws_sdk=False,
            log_group=call_log(self),
            policy=cr.AwsCustomResourcePolicy.from_statements(_rights(bucket, removable=removable)),
        )


def _removal(place: Mapping[str, str]) -> cr.AwsSdkCall:
    return cr.AwsSdkCall(
        service="S3",
        action="deleteObject",
        parameters={**place, "VersionId": cr.PhysicalResourceIdReference()},
        # An upload that failed has the name of a log stream in the place of a version.
        ignore_error_codes_matching="InvalidArgument",
    )


def _rights(bucket: s3.IBucket, *, removable: bool) -> Sequence[iam.PolicyStatement]:
    actions = ["s3:PutObject", *(["s3:DeleteObjectVersion"] if removable else [])]
    files = "The folder of a script names its content, which changes."
    folder = bucket.arn_for_objects("lifecycle/*")
    return [
        wildcard("WriteScripts", files, actions=actions, resources=[folder]),
        *through_s3(bucket.encryption_key, Stack.of(bucket), "kms:Decrypt", "kms:GenerateDataKey"),
    ]
