"""A Kubernetes API over TLS, a session that finds it, and what CloudFormation asks of the handler."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpd_constructs.handlers.kubernetes_waits import api, handler

START_S = 1_000_000


@dataclass
class ApiServer:
    """Hold a running server: its address, whom to trust, what it answers, and what it was asked."""

    url: str
    authority: bytes
    code: int = 200
    cut: bool = False
    """True: the connection ends one byte before the answer does."""
    body: Any = field(default_factory=lambda: {"items": []})
    seen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def session(self) -> Session:
        return Session(self.url, self.authority)


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

    def client(self, name: str, **_: Any) -> Any:
        return self.eks if name == "eks" else self.real.client(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def make_certificate(folder: Path) -> tuple[Path, bytes]:
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
def certificate() -> Callable[[Path], tuple[Path, bytes]]:
    """Return what makes a certificate."""
    return make_certificate


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Serve the API over TLS on loopback."""
    file, public = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    class Answers(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            sent = json.loads(self.rfile.read(length)) if length else None
            seen = {"method": self.command, "path": self.path, "body": sent, **self.headers}
            running.seen.append(seen)
            text = running.body if isinstance(running.body, str) else json.dumps(running.body)
            self.send_response(running.code)
            self.send_header("Content-Length", str(len(text.encode()) + running.cut))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    running = ApiServer(f"https://127.0.0.1:{http.server_port}", public)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def poll() -> Callable[..., dict[str, Any]]:
    """Return ``poll(api, waited_s=60, Check="devices", ...)``: the answer to an event of these properties."""

    def run(
        asked: api.Api, *, waited_s: int = 60, request: str = "Create", **properties: Any
    ) -> Mapping[str, Any]:
        # CloudFormation hands every number over as text.
        event = {
            "RequestType": request,
            "ResourceProperties": {"ClusterName": "dpd-dev", "TimeoutSeconds": "900", **properties},
            "Data": {"StartedAt": str(START_S)},
        }
        return handler.is_complete(event, None, connect=lambda _: asked, now=lambda: START_S + waited_s)

    return run


@pytest.fixture
def poll_server(server: ApiServer, poll: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return ``poll_server(...)``: the same against the server, of which each call is a new sign-in."""
    return lambda **options: poll(api.connect("dpd-dev", session=server.session()), **options)
