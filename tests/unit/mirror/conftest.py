"""Stand-ins for the tools and for AWS: the only programs on the PATH, and one stubbed client a service."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from dpd.ops.mirror import Clients
from dpd.ops.mirror_plan import Copy
from dpd.spec.base_chart import ChartPin

REGION = "us-west-2"


@dataclass(frozen=True)
class Tools:
    """Hold the only folder on the PATH."""

    folder: Path

    def make(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Return the only folder on the PATH, with what the scripts need of the system."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "cat", "cp", "cut", "echo", "git", "mkdir", "sha256sum", "tar"):
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    return Tools(folder)


@dataclass
class Aws:
    """Hold a stubbed client of each service, and say what it will be asked."""

    clients: dict[str, Any] = field(default_factory=dict[str, Any])
    stubs: dict[str, Stubber] = field(default_factory=dict[str, Stubber])

    def all(self) -> Clients:
        return Clients(sts=self.clients["sts"], ecr=self.clients["ecr"], s3=self.clients["s3"])

    def repository(self, item: Copy, *, exists: bool = False) -> None:
        ecr = self.stubs["ecr"]
        asked = {
            "repositoryName": item.repository,
            "imageTagMutability": "IMMUTABLE",
            "imageScanningConfiguration": {"scanOnPush": True},
            "tags": ANY,
        }
        if exists:
            ecr.add_client_error(
                "create_repository", "RepositoryAlreadyExistsException", expected_params=asked
            )
        else:
            ecr.add_response("create_repository", {}, asked)

    def image(self, item: Copy, digest: str | None) -> None:
        ecr = self.stubs["ecr"]
        asked = {"repositoryName": item.repository, "imageIds": [{"imageTag": item.tag}]}
        if digest is None:
            ecr.add_client_error("describe_images", "ImageNotFoundException", expected_params=asked)
        else:
            ecr.add_response("describe_images", {"imageDetails": [{"imageDigest": digest}]}, asked)

    def token(self) -> None:
        secret = base64.b64encode(b"AWS:secret").decode()
        self.stubs["ecr"].add_response(
            "get_authorization_token", {"authorizationData": [{"authorizationToken": secret}]}, {}
        )

    def bucket(self, name: str, *, exists: bool = False) -> None:
        s3 = self.stubs["s3"]
        asked = {"Bucket": name, "CreateBucketConfiguration": {"LocationConstraint": REGION}}
        if exists:
            s3.add_client_error("create_bucket", "BucketAlreadyOwnedByYou", expected_params=asked)
        else:
            s3.add_response("create_bucket", {}, asked)
        s3.add_response(
            "put_public_access_block", {}, {"Bucket": name, "PublicAccessBlockConfiguration": ANY}
        )
        versioning = {"Bucket": name, "VersioningConfiguration": {"Status": "Enabled"}}
        s3.add_response("put_bucket_versioning", {}, versioning)
        s3.add_response("put_bucket_policy", {}, {"Bucket": name, "Policy": ANY})


@pytest.fixture
def aws() -> Iterator[Aws]:
    made = Aws()
    for service in ("sts", "ecr", "s3"):
        client = boto3.client(
            service, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
        )
        made.clients[service], made.stubs[service] = client, Stubber(client)
        made.stubs[service].activate()
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def chart(tmp_path: Path, tools: Any) -> ChartPin:
    """Return the pin of a repository with a chart, and a helm that brings one dependency."""
    tools.make("helm", 'mkdir -p "$3/charts"; echo plugin >"$3/charts/plugin.tgz"')
    source = tmp_path / "repository"
    (source / "helm/chart").mkdir(parents=True)
    (source / "helm/chart/Chart.yaml").write_text("name: chart\n")
    identity = {
        f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    commands = (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "chart"], ["rev-parse", "HEAD"])
    outputs = [
        subprocess.run(
            ["git", *command],
            cwd=source,
            env={**os.environ, **identity},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in commands
    ]
    return ChartPin(source.as_uri(), outputs[-1].strip(), "helm/chart", "")
