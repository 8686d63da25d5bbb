"""Put the base chart, with its dependencies inside, into a bucket that a closed network reaches."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from dpd.ops.registry_copy import MirrorFailed, run
from dpd.spec.base_chart import ChartPin
from dpd.spec.mirror import MirroredChart

_NAME_CHARACTERS = 16
_US_EAST_1 = "us-east-1"


def build_archive(pin: ChartPin, fetch_script: Path) -> bytes:
    """Fetch the chart as the build in AWS would, and return it as a tar archive.

    Needs git and helm on the PATH; raises MirrorFailed where one is missing or fails. Times and owners
    in the archive are fixed, yet helm packs local dependencies with the time of day: two archives of
    one commit hold the same and differ in their digest.
    """
    helm = shutil.which("helm")
    missing = [name for name in ("git", "helm") if shutil.which(name) is None]
    if helm is None or missing:
        raise MirrorFailed(f"{' and '.join(missing)} not on the PATH; the base chart needs both git and helm")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools/helm").mkdir(parents=True)
        (folder / "tools/helm/helm").symlink_to(helm)
        variables = {
            "ACTION": "install",
            "REPOSITORY": pin.repository,
            "COMMIT": pin.commit,
            "FOLDER": pin.folder,
            "ARCHIVE_SHA256": pin.archive_sha256,
        }
        run(["bash", str(fetch_script)], what="fetching the base chart", env=variables, cwd=folder)
        path = folder / "archive.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            archive.add(folder / "chart" / pin.folder, arcname=pin.folder, filter=_without_history)
        return path.read_bytes()


def _without_history(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def upload_chart(s3: Any, bucket: str, region: str, pin: ChartPin, archive: bytes) -> MirroredChart:
    """Upload the archive under a name that states commit and digest, and return where it lies."""
    ensure_bucket(s3, bucket, region)
    sha256 = hashlib.sha256(archive).hexdigest()
    key = f"charts/{pin.commit}-{sha256[:_NAME_CHARACTERS]}.tar"
    s3.put_object(Bucket=bucket, Key=key, Body=archive, ContentType="application/x-tar")
    return MirroredChart(commit=pin.commit, uri=f"s3://{bucket}/{key}", sha256=sha256)


def is_there(s3: Any, chart: MirroredChart) -> bool:
    """Tell whether the recorded archive still lies in its bucket."""
    bucket, _, key = chart.uri.removeprefix("s3://").partition("/")
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}:
            return False
        raise
    return True


def ensure_bucket(s3: Any, name: str, region: str) -> None:
    """Make a private bucket, versioned and for TLS alone; the settings are made again on every run.

    It is no part of a stack: the stack that installs the chart needs the chart first.
    """
    try:
        if region == _US_EAST_1:
            s3.create_bucket(Bucket=name)
        else:
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})
    except ClientError as error:
        if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
            raise
    blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    arn = f"arn:{partition}:s3:::{name}"
    statement = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    s3.put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
