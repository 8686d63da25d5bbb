"""What `dpd mirror` would copy, and the file in which it records what it did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpd.cli import main
from dpd.facts import Facts
from dpd.ops.mirror_plan import copies
from dpd.ops.registry_copy import MirrorFailed
from dpd.spec.catalog import Catalog, load_catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror, MirroredImage
from dpd.spec.mirror_file import mirror_path, write_mirror

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT, REGION = "111122223333", "us-west-2"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
DIGEST = f"sha256:{'ab' * 32}"


def dev(catalog: Catalog, **changes: Any) -> Environment:
    value = catalog.environments["dev"].value
    assert value is not None
    return value.model_copy(update=changes)


def test_the_plan_has_every_image_once(catalog: Catalog, facts: Facts) -> None:
    model = catalog.models["llama-3.3-70b"].value
    assert model is not None
    items = copies(dev(catalog), [model, model], facts)
    assert [(item.repository, item.tag) for item in items] == [
        ("dpd/nvidia/k8s-device-plugin", "v0.16.1"),
        ("dpd/eks/aws-efa-k8s-device-plugin", "v0.5.20"),
        ("dpd/deep-learning-containers/vllm", "server-hyperpod-cuda-v1.1"),
    ]
    assert items[2].target(ACCOUNT, REGION).startswith(f"{REGISTRY}/dpd/deep-learning-containers/vllm:")


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ("docker.io/lmcache/vllm-openai:v0.4.3", ("dpd/lmcache/vllm-openai", "v0.4.3")),
        ("lmcache/vllm-openai:v0.4.3", ("dpd/lmcache/vllm-openai", "v0.4.3")),
        ("registry.example:5000/vllm:1", ("dpd/vllm", "1")),
        (f"ghcr.io/a/b@{DIGEST}", ("dpd/a/b", f"sha256-{'ab' * 6}")),
        (f"ghcr.io/a/b:2@{DIGEST}", ("dpd/a/b", "2")),
        (f"{REGISTRY}/ours/vllm:1", None),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/ours/vllm:1", ("dpd/ours/vllm", "1")),
    ],
)
def test_where_a_copy_goes(
    catalog: Catalog, facts: Facts, reference: str, place: tuple[str, str] | None
) -> None:
    model = catalog.models["llama-3.3-70b"].value
    assert model is not None
    serving = model.serving.model_copy(update={"image": reference})
    items = copies(dev(catalog), [model.model_copy(update={"serving": serving})], facts)
    found = [(item.repository, item.tag) for item in items if item.source == reference]
    assert found == ([] if place is None else [place])


def test_the_command_prints_the_plan_and_touches_nothing(catalog: Catalog) -> None:
    result = CliRunner().invoke(main, ["mirror", "--env", "dev", "--config-dir", str(ROOT / "config")])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "dev:"
    assert lines[1] == (
        "  copy  nvcr.io/nvidia/k8s-device-plugin:v0.16.1 -> "
        f"<account>.dkr.ecr.{REGION}.amazonaws.com/dpd/nvidia/k8s-device-plugin:v0.16.1"
    )
    assert lines[-1].endswith(f"-> s3://dpd-dev-mirror-<account>-{REGION}/charts/")
    assert not mirror_path(ROOT / "config", "dev").exists()


def test_the_plan_is_data_too() -> None:
    result = CliRunner().invoke(
        main, ["mirror", "--env", "dev", "--format", "json", "--config-dir", str(ROOT / "config")]
    )
    (row, *_) = json.loads(result.stdout)["mirrors"]["dev"]
    assert row["source"] == "nvcr.io/nvidia/k8s-device-plugin:v0.16.1"
    assert row["digest"] is None


def test_applying_needs_a_named_environment() -> None:
    result = CliRunner().invoke(main, ["mirror", "--apply", "--config-dir", str(ROOT / "config")])
    assert result.exit_code == 2
    assert "--apply needs --env" in result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a configuration folder of its own."""
    for part in ("environments", "models", "facts"):
        shutil.copytree(ROOT / "config" / part, tmp_path / "config" / part)
    return tmp_path / "config"


def test_the_environment_reads_what_was_recorded(folder: Path, facts: Facts) -> None:
    source = facts.images["hyperpod-dlc"].reference
    copy = MirroredImage(target=f"{REGISTRY}/dpd/vllm:v1", digest=DIGEST)
    write_mirror(mirror_path(folder, "dev"), Mirror(images={source: copy}))
    catalog = load_catalog(folder)
    assert catalog.findings == ()
    opened, model = catalog.environments["dev"].value, catalog.models["llama-3.3-70b"].value
    assert opened is not None
    assert model is not None
    network = opened.network.model_copy(update={"closed": True})
    closed = opened.model_copy(update={"network": network})
    assert build_deployment(opened, model, facts).image.reference == source
    pulled = build_deployment(closed, model, facts).image
    assert pulled.reference == f"{REGISTRY}/dpd/vllm:v1@{DIGEST}"
    assert (pulled.digest, pulled.fact) == (DIGEST, facts.images["hyperpod-dlc"])
    other = catalog.environments["staging"].value
    assert other is not None
    assert other.mirror == Mirror()


def test_the_file_is_the_same_for_the_same_copies(tmp_path: Path) -> None:
    a, b = (MirroredImage(target=f"{REGISTRY}/dpd/{name}:v1", digest=DIGEST) for name in "ab")
    write_mirror(tmp_path / "1.yaml", Mirror(images={"x": a, "y": b}))
    write_mirror(tmp_path / "2.yaml", Mirror(images={"y": b, "x": a}))
    assert (tmp_path / "1.yaml").read_bytes() == (tmp_path / "2.yaml").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.yaml", "2.yaml"]


@pytest.mark.parametrize(
    ("text", "id", "line"),
    [
        ("images:\n  a/b:1: {target: r/a/b:1, digest: latest}\n", "CFG003", 2),
        ("images: {}\nchrt: {}\n", "CFG001", 2),
        ("images: [\n", "CFG005", 2),
    ],
    ids=["no digest", "unknown key", "no YAML"],
)
def test_a_broken_file_is_reported_where_it_is_broken(folder: Path, text: str, id: str, line: int) -> None:
    path = mirror_path(folder, "dev")
    path.parent.mkdir()
    path.write_text(text)
    (finding,) = load_catalog(folder).findings
    assert (finding.id, finding.file, finding.line) == (id, str(path), line)


def test_a_tool_that_is_missing_ends_the_command_with_2(
    folder: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Mirror:
        raise MirrorFailed("neither skopeo nor crane is on the PATH")

    monkeypatch.setattr("dpd.ops.mirror.apply_mirror", refuse)
    result = CliRunner().invoke(main, ["mirror", "--env", "dev", "--apply", "--config-dir", str(folder)])
    assert (result.exit_code, result.output.count("neither skopeo nor crane")) == (2, 1)
