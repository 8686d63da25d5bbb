"""What the operator may do for an endpoint's own certificate and name, and for nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from dpd.spec.environment import Environment


def endpoint_statements(environment: Environment, stack: Stack) -> Sequence[iam.PolicyStatement]:
    """Return the rights on one certificate and one zone; none where the operator makes the certificate.

    AWS names the two certificate actions (developer guide, page
    sagemaker-hyperpod-model-deployment-setup) and no Route 53 action; those here are what writing and
    deleting one record takes, limited to the endpoint's name.
    """
    endpoint = environment.endpoint
    statements: list[iam.PolicyStatement] = []
    if endpoint.certificate_arn:
        statements.append(
            iam.PolicyStatement(
                actions=["acm:DescribeCertificate", "acm:GetCertificate"],
                resources=[endpoint.certificate_arn],
            )
        )
    if endpoint.hosted_zone_id and endpoint.domain_name:
        zone = f"arn:{stack.partition}:route53:::hostedzone/{endpoint.hosted_zone_id}"
        names = {
            "ForAllValues:StringEquals": {
                "route53:ChangeResourceRecordSetsNormalizedRecordNames": [endpoint.domain_name]
            }
        }
        statements += [
            iam.PolicyStatement(
                actions=["route53:ChangeResourceRecordSets"], resources=[zone], conditions=names
            ),
            iam.PolicyStatement(
                actions=["route53:GetHostedZone", "route53:ListResourceRecordSets"], resources=[zone]
            ),
        ]
    return statements
