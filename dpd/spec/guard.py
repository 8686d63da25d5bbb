"""The schema of an environment's encryption at rest, and of the name and certificate of its endpoints."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from dpd.closed_model import ClosedModel

CertificateArn = Annotated[
    str,
    Field(
        # The operator's CRD admits no other partition.
        pattern=r"^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$",
        examples=["arn:aws:acm:us-west-2:111122223333:certificate/12345678-1234-1234-1234-123456789012"],
    ),
]
# As the operator's CRD has it: lower case, no wildcard.
DOMAIN_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$"
HostedZoneId = Annotated[str, Field(pattern=r"^Z[A-Z0-9]{1,31}$", examples=["Z0123456789ABCDEFGHIJ"])]


class Encryption(ClosedModel):
    """Choose whose keys encrypt buckets, logs and node volumes."""

    customer_managed: bool = True
    """True: one key for each purpose, about one USD a month each. Fixed once nodes exist."""


class Endpoint(ClosedModel):
    """Give endpoints a certificate and a name of your own; default: the operator makes a certificate."""

    certificate_arn: CertificateArn | None = None
    """Certificate in AWS Certificate Manager, in the environment's region."""
    domain_name: str | None = None
    """Name that the certificate covers, in lower case and without a wildcard."""
    hosted_zone_id: HostedZoneId | None = None
    """Route 53 zone in which the operator writes a record for the name; default: you write it."""
