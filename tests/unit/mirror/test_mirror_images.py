"""Images are copied by skopeo or crane into repositories whose tags stay."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from dpd.ops.mirror_images import mirror_images
from dpd.ops.mirror_plan import Copy
from dpd.ops.registry_copy import MirrorFailed, copy_image, copy_tool, registry_credentials

ACCOUNT, REGION = "111122223333", "us-west-2"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
DIGEST = f"sha256:{'ab' * 32}"
VLLM = Copy("public.ecr.aws/dlc/vllm:v1", "dpd/dlc/vllm", "v1", None)


@pytest.mark.usefixtures("tools")
def test_without_a_tool_both_are_named() -> None:
    with pytest.raises(MirrorFailed, match="neither skopeo nor crane is on the PATH"):
        copy_tool()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (
            "skopeo",
            "copy --all --preserve-digests --dest-authfile {folder}/config.json "
            "docker://public.ecr.aws/dlc/vllm:v1 docker://{target}",
        ),
        ("crane", "copy public.ecr.aws/dlc/vllm:v1 {target}"),
    ],
)
def test_each_tool_copies_with_a_password_that_no_process_list_shows(
    tools: Any, tmp_path: Path, tool: str, arguments: str
) -> None:
    log = tmp_path / "log"
    tools.make(tool, f'echo "$@" >>{log}; [[ -z $DOCKER_CONFIG ]] || echo "$DOCKER_CONFIG" >>{log}.config')
    assert copy_tool() == tool
    target = VLLM.target(ACCOUNT, REGION)
    with registry_credentials(REGISTRY, "secret") as folder:
        path = folder / "config.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        auth = json.loads(path.read_text())["auths"][REGISTRY]["auth"]
        assert base64.b64decode(auth) == b"AWS:secret"
        copy_image(tool, VLLM.source, target, folder)
        assert log.read_text().strip() == arguments.format(folder=folder, target=target)
        assert (tmp_path / "log.config").exists() is (tool == "crane")
    assert not folder.exists()


def test_a_digest_goes_without_its_tag(tools: Any, tmp_path: Path) -> None:
    tools.make("skopeo", f'echo "$@" >{tmp_path / "log"}')
    copy_image("skopeo", f"ghcr.io/a/b:2@{DIGEST}", "target:2", tmp_path)
    assert f"docker://ghcr.io/a/b@{DIGEST} docker://target:2" in (tmp_path / "log").read_text()


def test_other_registries_keep_their_passwords(tmp_path: Path, tools: Any) -> None:
    own = tmp_path / ".docker/config.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"auths": {"nvcr.io": {"auth": "x"}}, "credsStore": "desktop"}))
    with registry_credentials(REGISTRY, "secret") as folder:
        config = json.loads((folder / "config.json").read_text())
    assert set(config["auths"]) == {"nvcr.io", REGISTRY}
    assert "credsStore" not in config
    assert "secret" not in own.read_text()


def test_a_failed_copy_tells_the_tool_s_last_words(tools: Any, tmp_path: Path) -> None:
    tools.make("skopeo", 'echo "trying" >&2; echo "manifest unknown" >&2; echo "Copying blob"; exit 3')
    with pytest.raises(
        MirrorFailed, match=r"copying public.*: skopeo ended with 3: trying \| manifest unknown"
    ):
        copy_image("skopeo", VLLM.source, "target:1", tmp_path)


def test_missing_images_are_copied_and_read_back(tools: Any, aws: Any) -> None:
    tools.make("skopeo", "exit 0")
    aws.repository(VLLM)
    aws.image(VLLM, None)
    aws.token()
    aws.image(VLLM, DIGEST)
    said: list[str] = []
    done = mirror_images([VLLM], aws.clients["ecr"], account=ACCOUNT, region=REGION, say=said.append)
    assert done[VLLM.source].reference == f"{REGISTRY}/dpd/dlc/vllm:v1@{DIGEST}"
    assert said == [f"copy  {VLLM.source} -> {REGISTRY}/dpd/dlc/vllm:v1"]


@pytest.mark.usefixtures("tools")
def test_what_is_there_is_not_copied_again_and_needs_no_tool(aws: Any) -> None:
    aws.repository(VLLM, exists=True)
    aws.image(VLLM, DIGEST)
    done = mirror_images([VLLM], aws.clients["ecr"], account=ACCOUNT, region=REGION, say=lambda _: None)
    assert done[VLLM.source].digest == DIGEST


def test_success_without_an_image_is_none(tools: Any, aws: Any) -> None:
    tools.make("crane", "exit 0")
    aws.repository(VLLM)
    aws.image(VLLM, None)
    aws.token()
    aws.image(VLLM, None)
    with pytest.raises(MirrorFailed, match="crane reported success, and the registry has no"):
        mirror_images([VLLM], aws.clients["ecr"], account=ACCOUNT, region=REGION, say=lambda _: None)


def test_other_bytes_under_the_wanted_tag_are_refused(aws: Any) -> None:
    item = Copy(f"ghcr.io/a/b:2@sha256:{'cd' * 32}", "dpd/a/b", "2", None)
    aws.repository(item, exists=True)
    aws.image(item, DIGEST)
    with pytest.raises(MirrorFailed, match="tags are immutable"):
        mirror_images([item], aws.clients["ecr"], account=ACCOUNT, region=REGION, say=lambda _: None)
