"""Make the repositories of mirrored images, copy what is missing, and read the digests back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError

from dpd.ops.mirror_plan import Copy, registry
from dpd.ops.registry_copy import MirrorFailed, copy_image, copy_tool, registry_credentials
from dpd.spec.mirror import MirroredImage


def mirror_images(
    items: Sequence[Copy], ecr: Any, *, account: str, region: str, say: Callable[[str], None]
) -> dict[str, MirroredImage]:
    """Copy what the registry lacks and return every copy by its source.

    A tag that is there already stays: tags are immutable, so that nobody exchanges what was tested.
    Raises MirrorFailed and leaves what is already copied in place.
    """
    done: dict[str, MirroredImage] = {}
    missing: list[Copy] = []
    for item in items:
        ensure_repository(ecr, item.repository)
        digest = digest_of(ecr, item)
        if digest is None:
            missing.append(item)
        else:
            done[item.source] = _recorded(item, digest, account, region)
            say(f"have  {done[item.source].reference}")
    if missing:
        tool, password = copy_tool(), _password(ecr)
        with registry_credentials(registry(account, region), password) as credentials:
            for item in missing:
                target = item.target(account, region)
                say(f"copy  {item.source} -> {target}")
                copy_image(tool, item.source, target, credentials)
                digest = digest_of(ecr, item)
                if digest is None:
                    raise MirrorFailed(f"{tool} reported success, and the registry has no {target}")
                done[item.source] = _recorded(item, digest, account, region)
    return done


def ensure_repository(ecr: Any, name: str) -> None:
    """Make a repository with immutable tags that scans what is pushed; one that exists stays as it is."""
    try:
        ecr.create_repository(
            repositoryName=name,
            imageTagMutability="IMMUTABLE",
            imageScanningConfiguration={"scanOnPush": True},
            tags=[{"Key": "hyperpod-dpd/made-by", "Value": "dpd mirror"}],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "RepositoryAlreadyExistsException":
            raise


def digest_of(ecr: Any, item: Copy) -> str | None:
    """Return the digest that a copy has in the registry, None where it is not there."""
    try:
        details = ecr.describe_images(repositoryName=item.repository, imageIds=[{"imageTag": item.tag}])[
            "imageDetails"
        ]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ImageNotFoundException":
            return None
        raise
    return str(details[0]["imageDigest"]) if details else None


def _recorded(item: Copy, digest: str, account: str, region: str) -> MirroredImage:
    wanted = item.source.partition("@")[2]
    if wanted and wanted != digest:
        raise MirrorFailed(
            f"{item.target(account, region)} holds {digest}, and {item.source} is wanted; "
            "tags are immutable, so give the source another tag or remove the image"
        )
    return MirroredImage(target=item.target(account, region), digest=digest)


def _password(ecr: Any) -> str:
    token = ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    return base64.b64decode(token).decode().partition(":")[2]
