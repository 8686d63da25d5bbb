"""How the Kubernetes API is asked: against a TLS server of our own."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from dpd_constructs.handlers.kubernetes_waits import api

Server = Any


def connected(server: Server, **other: Any) -> api.Api:
    session = server.session()
    return api.connect("dpd-dev", session=session, **other)


def test_gets_a_path_as_json(server: Server) -> None:
    server.body = {"kind": "NodeList", "items": []}

    assert connected(server)("/api/v1/nodes") == server.body
    (seen,) = server.seen
    assert (seen["method"], seen["path"], seen["body"]) == ("GET", "/api/v1/nodes", None)


def test_posts_a_body_as_json(server: Server) -> None:
    connected(server)("/apis/example.com/v1/things", {"kind": "Thing"})

    (seen,) = server.seen
    assert (seen["method"], seen["body"]) == ("POST", {"kind": "Thing"})
    assert seen["Content-Type"] == "application/json"


def test_signs_in_with_a_question_to_sts_that_names_the_cluster(server: Server) -> None:
    connected(server)("/version")

    (seen,) = server.seen
    token = seen["Authorization"].removeprefix("Bearer k8s-aws-v1.")
    url = urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = urllib.parse.parse_qs(url.query)
    assert (url.scheme, url.netloc) == ("https", "sts.us-west-2.amazonaws.com")
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]
    assert query["X-Amz-Signature"]


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (401, {"kind": "Status", "message": "Unauthorized", "code": 401}, "401 Unauthorized"),
        (404, "404 page not found\n", "404 Not Found"),
        (503, {"kind": "Status"}, "503 Service Unavailable"),
        (502, "[]", "502 Bad Gateway"),
    ],
)
def test_a_refusal_holds_what_the_server_said(server: Server, code: int, body: Any, says: str) -> None:
    server.code, server.body = code, body

    with pytest.raises(OSError, match=f"^{says}$"):
        connected(server)("/version")


def test_an_answer_that_breaks_off_is_a_refusal(server: Server) -> None:
    server.cut = True

    with pytest.raises(OSError, match="IncompleteRead"):
        connected(server)("/api/v1/nodes")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectTimeoutError(endpoint_url="https://eks.us-west-2.amazonaws.com"), "Connect timeout"),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeCluster"),
            "AccessDenied",
        ),
    ],
    ids=["no way to EKS", "rights that have not spread"],
)
def test_a_cluster_that_eks_does_not_describe_yet_is_a_refusal(error: Exception, says: str) -> None:
    class Session:
        def client(self, *_: Any, **__: Any) -> Any:
            raise error

    with pytest.raises(OSError, match=f"^nothing, since EKS cannot be asked for it: .*{says}"):
        api.connect("dpd-dev", session=Session())


def test_a_server_of_another_authority_is_not_believed(
    server: Server, tmp_path: Path, certificate: Callable[[Path], tuple[Path, bytes]]
) -> None:
    (tmp_path / "other").mkdir()
    _, server.authority = certificate(tmp_path / "other")

    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        connected(server)("/version")
    assert server.seen == []


def test_an_endpoint_without_tls_is_not_asked(server: Server) -> None:
    server.url = "http://127.0.0.1:1"

    with pytest.raises(ValueError, match="not https"):
        connected(server)
