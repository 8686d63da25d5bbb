"""Ask the Kubernetes API of an EKS cluster, with a token that is signed here.

Neither kubectl nor the AWS CLI is needed for one request.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol, cast

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# Where EKS finds the cluster's name in a signed request, and how it names such tokens
# (kubernetes-sigs/aws-iam-authenticator, README).
_CLUSTER_HEADER = "x-k8s-aws-id"
_TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - the prefix of every token, no secret
_TOKEN_S = 60
# A closed way swallows packets and says nothing. These limits count for each address of a name, and
# end before the function itself is ended, which would fail the deployment without a reason.
REQUEST_S = 10
EKS_LIMITS = Config(connect_timeout=10, read_timeout=10, retries={"total_max_attempts": 1})


class Api(Protocol):
    """Ask the API of one cluster."""

    def __call__(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Get a path as JSON, or post ``body`` to it; raises OSError or ValueError."""
        ...


def connect(cluster_name: str, *, session: Any = None) -> Api:
    """Return the API of a cluster; it refuses with an OSError that holds code and message.

    Raises OSError where EKS does not describe the cluster: without a way to it, or before the rights of
    a new role have spread.
    """
    if session is None:
        import boto3  # pyright: ignore[reportMissingTypeStubs] - part of the Lambda runtime

        session = cast("Any", boto3).session.Session()
    try:
        cluster = session.client("eks", config=EKS_LIMITS).describe_cluster(name=cluster_name)["cluster"]
    except (BotoCoreError, ClientError) as error:
        raise OSError(f"nothing, since EKS cannot be asked for it: {error}") from error
    url, authority = cluster["endpoint"], base64.b64decode(cluster["certificateAuthority"]["data"])
    if not url.startswith("https://"):
        raise ValueError(f"the cluster's endpoint {url} is not https")
    trust = ssl.create_default_context(cadata=authority.decode())
    headers = {
        "Authorization": f"Bearer {_token(cluster_name, session)}",
        "Content-Type": "application/json",
    }

    def ask(path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data=data, headers=headers)  # noqa: S310 - https, see above
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S, context=trust) as answer:  # noqa: S310
                return cast("Mapping[str, Any]", json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(f"{error.code} {_said(error)}") from error
        except http.client.HTTPException as error:
            raise OSError(f"an answer that breaks off: {error!r}") from error

    return ask


def _said(error: urllib.error.HTTPError) -> str:
    """Return what the server said about a refused request: HTTPError's own text leaves that out."""
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


def _token(cluster_name: str, session: Any) -> str:
    """Sign a question to STS that EKS asks in our name; its answer tells EKS who we are."""
    from botocore.signers import RequestSigner

    client, region = session.client("sts"), session.region_name
    signer = cast("Any", RequestSigner)(
        client.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events
    )
    request = {
        "method": "GET",
        "url": f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {_CLUSTER_HEADER: cluster_name},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=_TOKEN_S, operation_name="")
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
