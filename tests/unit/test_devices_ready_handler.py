"""The wait for GPUs and EFA devices: a node list as the Kubernetes API gives it, and a real TLS server."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpd_constructs.handlers.devices_ready import handler

START_S = 1_000_000
# CloudFormation hands every number over as text.
DEVICES = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}


def event(request_type: str = "Create", decode: int = 1, prefill: int = 0) -> dict[str, Any]:
    groups = [
        {"Name": name, "Label": "hyperpod-dpd/role", "Count": str(count), "Devices": DEVICES}
        for name, count in (("prefill", prefill), ("decode", decode))
    ]
    return {
        "RequestType": request_type,
        "ResourceProperties": {"ClusterName": "dpd-dev", "TimeoutSeconds": "900", "Groups": groups},
        "Data": {"StartedAt": str(START_S)},
    }


def node(name: str = "hyperpod-i-0123456789abcdef0", ready: str = "True", **devices: str) -> dict[str, Any]:
    offered = {"gpu": "8", "efa": "32", **devices}
    names = {"gpu": "nvidia.com/gpu", "efa": "vpc.amazonaws.com/efa"}
    return {
        "metadata": {"name": name, "labels": {"hyperpod-dpd/role": "decode"}},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "NotYet"},
            ],
            "allocatable": {
                "cpu": "191450m",
                "memory": "2029580Ki",
                "pods": "49",
                **{names[key]: value for key, value in offered.items() if value},
            },
        },
    }


def poll(*nodes: Mapping[str, Any], waited_s: int = 60, **groups: int) -> dict[str, Any]:
    asked: list[str] = []

    def get(path: str) -> Mapping[str, Any]:
        asked.append(path)
        return {"kind": "NodeList", "apiVersion": "v1", "items": list(nodes)}

    answer = handler.is_complete(event(**groups), None, connect=lambda _: get, now=lambda: START_S + waited_s)
    assert all(path.startswith("/api/v1/nodes?labelSelector=") for path in asked)
    return answer


def test_start_notes_the_time_under_one_name() -> None:
    assert handler.on_event(event(), None, now=lambda: START_S + 0.9) == {
        "PhysicalResourceId": "devices-ready-dpd-dev",
        "Data": {"StartedAt": str(START_S)},
    }


def test_groups_without_nodes_are_complete_without_a_call() -> None:
    def connect(_: str) -> handler.Get:
        raise AssertionError

    assert handler.is_complete(event(decode=0), None, connect=connect) == {"IsComplete": True}


def test_delete_is_complete_without_a_call() -> None:
    def connect(_: str) -> handler.Get:
        raise AssertionError

    assert handler.is_complete(event("Delete"), None, connect=connect) == {"IsComplete": True}


def test_complete_when_every_node_offers_everything() -> None:
    assert poll(node(), node("hyperpod-i-1"), decode=2) == {"IsComplete": True}


@pytest.mark.parametrize(
    "lacking",
    [
        node(gpu=""),
        node(efa="0"),
        node(efa="31"),
        node(efa="33"),  # a plugin that counts NVLink devices as well (P-23)
        node(ready="Unknown"),
    ],
    ids=["no GPU plugin", "P-29 no EFA", "one EFA device short", "P-23 too many", "not Ready"],
)
def test_waits_while_a_node_lacks_something(lacking: dict[str, Any]) -> None:
    assert poll(lacking) == {"IsComplete": False}


def test_a_node_that_leaves_does_not_hold_up_the_others() -> None:
    assert poll(node(), node("hyperpod-i-1", ready="Unknown"), decode=1) == {"IsComplete": True}


@pytest.mark.parametrize(
    ("health", "complete"),
    [("Unschedulable", True), ("Schedulable", False), ("UnschedulablePendingReplacement", False)],
)
def test_only_a_node_in_deep_health_checks_may_lack_devices(health: str, complete: bool) -> None:
    checked = node(efa="0")
    checked["metadata"]["labels"]["sagemaker.amazonaws.com/node-health-status"] = health

    assert poll(checked) == {"IsComplete": complete}


def test_the_deadline_tells_group_node_and_what_is_missing() -> None:
    with pytest.raises(RuntimeError) as raised:
        poll(node(), node("hyperpod-i-1", ready="False", efa="0", gpu=""), decode=2, waited_s=900)

    assert str(raised.value) == (
        "devices of cluster dpd-dev are not there after 900 s. "
        "group decode has 1 of 2 nodes with 8 nvidia.com/gpu and 32 vpc.amazonaws.com/efa: "
        "hyperpod-i-1 is not Ready (NotYet), offers 0 nvidia.com/gpu, offers 0 vpc.amazonaws.com/efa"
    )


def test_the_deadline_says_that_no_node_has_the_label() -> None:
    with pytest.raises(RuntimeError, match=r"group decode has 0 of 1 nodes .*, and 0 with its label"):
        poll(waited_s=900)


def test_an_answer_fits_into_a_cloudformation_reason() -> None:
    many = [node(f"hyperpod-i-{number:017x}", efa="0") for number in range(200)]

    with pytest.raises(RuntimeError) as raised:
        poll(*many, decode=200, waited_s=900)

    assert len(str(raised.value)) <= 1500


class Api(BaseHTTPRequestHandler):
    """Answer as an API server does, and keep what it was asked."""

    answers: tuple[int, dict[str, Any]] = (200, {"items": []})
    seen: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        code, body = self.answers
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def certificate(folder: Path) -> tuple[Path, bytes]:
    """Make a certificate of 127.0.0.1 that signs itself; returns key and certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(private + public)
    return file, public


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, bytes]]:
    """Serve the API over TLS on loopback; returns its address and the authority to trust."""
    file, public = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    http = HTTPServer(("127.0.0.1", 0), Api)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    monkeypatch.setattr(Api, "answers", (200, {"items": []}))
    monkeypatch.setattr(Api, "seen", [])
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{http.server_port}", public
    http.shutdown()
    thread.join()
    http.server_close()


class Session:
    """Hand out one stubbed EKS client, and everything else as boto3 makes it."""

    def __init__(self, endpoint: str, authority: bytes) -> None:
        self.real = boto3.session.Session("AKIAEXAMPLE", "secret", region_name="us-west-2")
        self.eks = self.real.client("eks")
        stub = Stubber(self.eks)
        data = base64.b64encode(authority).decode()
        cluster = {"name": "dpd-dev", "endpoint": endpoint, "certificateAuthority": {"data": data}}
        stub.add_response("describe_cluster", {"cluster": cluster}, {"name": "dpd-dev"})
        stub.activate()

    def client(self, name: str) -> Any:
        return self.eks if name == "eks" else self.real.client(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def ask(server: tuple[str, bytes], waited_s: int = 60) -> dict[str, Any]:
    return handler.is_complete(
        event(),
        None,
        connect=lambda name: handler.reader(name, session=Session(*server)),
        now=lambda: START_S + waited_s,
    )


def test_asks_the_api_server_for_the_nodes_of_one_label(server: tuple[str, bytes]) -> None:
    Api.answers = (200, {"items": [node()]})

    assert ask(server) == {"IsComplete": True}
    ((path, _),) = Api.seen
    assert urllib.parse.unquote(path) == "/api/v1/nodes?labelSelector=hyperpod-dpd/role=decode"


def test_signs_in_with_a_question_to_sts_that_names_the_cluster(server: tuple[str, bytes]) -> None:
    ask(server)

    ((_, authorization),) = Api.seen
    token = authorization.removeprefix("Bearer k8s-aws-v1.")
    url = urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = urllib.parse.parse_qs(url.query)
    assert (url.scheme, url.netloc) == ("https", "sts.us-west-2.amazonaws.com")
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]
    assert query["X-Amz-Signature"]


def test_an_answer_of_no_access_is_waited_out_and_then_told(server: tuple[str, bytes]) -> None:
    Api.answers = (401, {"kind": "Status", "message": "Unauthorized", "code": 401})

    assert ask(server) == {"IsComplete": False}
    with pytest.raises(RuntimeError, match=r"after 900 s\. the API server says 401 Unauthorized"):
        ask(server, waited_s=900)


def test_a_server_of_another_authority_is_not_believed(server: tuple[str, bytes], tmp_path: Path) -> None:
    address, _ = server
    (tmp_path / "other").mkdir()
    _, other = certificate(tmp_path / "other")

    with pytest.raises(RuntimeError, match="CERTIFICATE_VERIFY_FAILED"):
        ask((address, other), waited_s=900)
    assert Api.seen == []


def test_an_endpoint_without_tls_is_not_asked(server: tuple[str, bytes]) -> None:
    _, authority = server

    with pytest.raises(RuntimeError, match="not https"):
        ask(("http://127.0.0.1:1", authority), waited_s=900)
