"""Two real registries on loopback under the names of the real ones, and real skopeo between them.

skopeo reaches every registry through a proxy of the test, which leads each name to the registry that stands
in for it. So `dpd mirror` runs unchanged: names, TLS and the login are those of production. ECR's API alone
is a stand-in; what it says about an image it asks the registry.
"""

from __future__ import annotations

import base64
import datetime
import json
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ACCOUNT, REGION = "111122223333", "us-west-2"
TARGET = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
SOURCES = ("public.ecr.aws", "nvcr.io")
PASSWORD = "secret"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
START_TIMEOUT_S = 60
MISSING = [name for name in ("skopeo", "docker-registry") if shutil.which(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = f"needs {' and '.join(MISSING)}: apt-get install skopeo docker-registry"
    for item in items:
        if MISSING and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Certificate:
    """Hold the files of one self-signed certificate for all names."""

    certificate: Path
    key: Path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(host) for host in (TARGET, *SOURCES)]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pkcs8, open_ = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, open_))
    return files


@dataclass(frozen=True)
class Registry:
    """Ask a running registry under the name that it stands in for."""

    host: str
    port: int
    context: ssl.SSLContext
    password: str | None

    def manifest(self, repository: str, reference: str) -> tuple[str, dict[str, Any]] | None:
        """Return digest and content of what a tag or digest names; None where there is nothing."""
        headers = {"Accept": f"{INDEX}, {MANIFEST}"}
        if self.password:
            headers["Authorization"] = f"Basic {base64.b64encode(f'AWS:{self.password}'.encode()).decode()}"
        with closing(HTTPSConnection("127.0.0.1", self.port, context=self.context)) as connection:
            connection.request("GET", f"/v2/{repository}/manifests/{reference}", headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        assert answer.status == HTTPStatus.OK, content
        return answer.headers["Docker-Content-Digest"], json.loads(content)


@pytest.fixture(scope="module")
def registries(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Registry]]:
    """Run the target's registry, which asks for a password, and one for all sources, which does not."""
    folder = tmp_path_factory.mktemp("registries")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"AWS:{hashed}\n")
    login = {"htpasswd": {"realm": "ecr", "path": str(folder / "htpasswd")}}
    context = ssl.create_default_context(cafile=str(certificate.certificate))
    context.check_hostname = False  # asked by its address; skopeo asks by name
    running: dict[str, Registry] = {}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for host, auth in ((TARGET, login), (SOURCES[0], {})):
            port = free_port()
            processes.append(start(folder / host, port, certificate, auth))
            running[host] = Registry(host, port, context, PASSWORD if auth else None)
        for registry, process in zip(running.values(), processes, strict=True):
            wait(registry, process)
        yield {**running, **dict.fromkeys(SOURCES, running[SOURCES[0]])}
    finally:
        for process in processes:
            process.terminate()
            process.wait(timeout=START_TIMEOUT_S)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(folder: Path, port: int, tls: Certificate, auth: dict[str, Any]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    files = {"certificate": str(tls.certificate), "key": str(tls.key)}
    http = {"addr": f"127.0.0.1:{port}", "tls": files}
    storage = {"filesystem": {"rootdirectory": str(folder / "data")}}
    config = {"version": 0.1, "storage": storage, "http": http, "auth": auth}
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )


def wait(registry: Registry, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        assert process.poll() is None, f"the registry for {registry.host} has ended"
        assert time.monotonic() < deadline, f"the registry for {registry.host} does not answer"
        try:
            registry.manifest("nothing", "here")
        except ConnectionError:
            time.sleep(0.05)
        else:
            return


class Tunnel(socketserver.StreamRequestHandler):
    """Answer CONNECT: lead a name to the port that stands in for it, and refuse any other."""

    def handle(self) -> None:
        host = self.rfile.readline().split()[1].decode().removesuffix(":443")
        while self.rfile.readline().strip():
            pass
        assert isinstance(self.server, Proxy)
        port = self.server.ports.get(host)
        if port is None:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pump, args=(upstream, self.connection))
            back.start()
            pump(self.connection, upstream)
            back.join()


class Proxy(socketserver.ThreadingTCPServer):
    """Hold the port of each name."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.ports = ports


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has gone, and says so to its own client


@pytest.fixture(scope="module")
def proxy(registries: Mapping[str, Registry]) -> Iterator[str]:
    with Proxy({host: registry.port for host, registry in registries.items()}) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def internet(proxy: str, certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs see no registry but ours, and no password of whoever runs the test."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, proxy)
    for name in ("NO_PROXY", "no_proxy", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    monkeypatch.setenv("HOME", str(tmp_path))


@dataclass
class Ecr:
    """Stand in for ECR's API: images are what the registry really has."""

    registry: Registry
    password: str = PASSWORD
    repositories: list[str] = field(default_factory=list[str])

    def create_repository(self, **asked: Any) -> None:
        self.repositories.append(asked["repositoryName"])

    def describe_images(self, repositoryName: str, imageIds: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        found = self.registry.manifest(repositoryName, imageIds[0]["imageTag"])
        if found is None:
            raise ClientError({"Error": {"Code": "ImageNotFoundException"}}, "DescribeImages")
        return {"imageDetails": [{"imageDigest": found[0]}]}

    def get_authorization_token(self) -> dict[str, Any]:
        token = base64.b64encode(f"AWS:{self.password}".encode()).decode()
        return {"authorizationData": [{"authorizationToken": token}]}


@pytest.fixture
def ecr(registries: Mapping[str, Registry]) -> Ecr:
    return Ecr(registries[TARGET])


@dataclass(frozen=True)
class Layout:
    """Write an image for two platforms, as an OCI layout."""

    folder: Path

    def blob(self, content: bytes, **more: Any) -> dict[str, Any]:
        digest = sha256(content).hexdigest()
        path = self.folder / "blobs/sha256" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content), **more}

    def document(self, kind: str, **content: Any) -> dict[str, Any]:
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, **content}).encode()
        return self.blob(body, mediaType=kind)

    def platform(self, architecture: str, words: str) -> dict[str, Any]:
        """Return the manifest of an image whose one layer holds ``words``."""
        layer = self.blob(words.encode(), mediaType="application/vnd.oci.image.layer.v1.tar")
        place = {"architecture": architecture, "os": "linux"}
        about = json.dumps({**place, "rootfs": {"type": "layers", "diff_ids": []}}).encode()
        config = self.blob(about, mediaType="application/vnd.oci.image.config.v1+json")
        return {**self.document(MANIFEST, config=config, layers=[layer]), "platform": place}

    def write(self, words: str) -> str:
        """Write the layout, and return the digest of its index."""
        manifests = [self.platform(name, f"{words} {name}") for name in ("amd64", "arm64")]
        index = self.document(INDEX, manifests=manifests)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
        return index["digest"]


@pytest.fixture
def publish(tmp_path: Path) -> Any:
    """Return ``publish(reference)``, which puts an image into a source registry and returns its digest."""

    def run(reference: str) -> str:
        folder = tmp_path / "layouts" / sha256(reference.encode()).hexdigest()
        folder.mkdir(parents=True)
        digest = Layout(folder).write(reference)
        command = ["skopeo", "copy", "--all", "--preserve-digests", f"oci:{folder}", f"docker://{reference}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return digest

    return run
