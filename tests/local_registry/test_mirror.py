"""`dpd mirror --apply` with real skopeo between real registries: what it copies, pins and refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.facts import Facts
from dpd.ops.mirror import Clients, apply_mirror
from dpd.ops.mirror_plan import Copy, copies
from dpd.ops.registry_copy import MirrorFailed
from dpd.spec.base_chart import chart_pin
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror, MirroredChart

TARGET = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
Publish = Callable[[str], str]


@dataclass(frozen=True)
class Account:
    """Stand in for STS, and for a bucket that has the chart already."""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "111122223333"}

    def head_object(self, **_: str) -> None:
        return None


@pytest.fixture
def dev(catalog: Catalog, facts: Facts) -> Environment:
    environment = catalog.environments["dev"].value
    assert environment is not None
    commit = chart_pin(environment, facts).commit
    chart = MirroredChart(commit=commit, uri="s3://bucket/chart.tar", sha256="cd" * 32)
    return environment.model_copy(update={"mirror": Mirror(chart=chart)})


@pytest.fixture
def items(catalog: Catalog, dev: Environment, facts: Facts) -> list[Copy]:
    model = catalog.models["llama-3.3-70b"].value
    assert model is not None
    return copies(dev, [model], facts)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mirror/dev.yaml"


@pytest.fixture
def apply(dev: Environment, facts: Facts, ecr: Any, file: Path) -> Callable[[list[Copy]], list[str]]:
    """Return a run of ``--apply``, which returns what it said."""

    def run(items: list[Copy]) -> list[str]:
        said: list[str] = []
        clients = Clients(sts=Account(), ecr=ecr, s3=Account())
        apply_mirror(dev, items, facts, clients, file=file, fetch_script=Path("unused"), say=said.append)
        return said

    return run


def test_every_image_is_copied_with_all_platforms_and_pinned(
    apply: Any, items: list[Copy], publish: Publish, registries: Mapping[str, Any], file: Path, ecr: Any
) -> None:
    published = {item.source: publish(item.source) for item in items}
    assert len(published) == 3

    said = apply(items)

    written = yaml.safe_load(file.read_text())["images"]
    assert {source: row["digest"] for source, row in written.items()} == published
    assert [line for line in said if line.startswith("copy")] == [
        f"copy  {item.source} -> {TARGET}/{item.repository}:{item.tag}" for item in items
    ]
    for item in items:
        digest, index = registries[TARGET].manifest(item.repository, written[item.source]["digest"])
        assert digest == published[item.source]
        assert [row["platform"]["architecture"] for row in index["manifests"]] == ["amd64", "arm64"]
        assert all(registries[TARGET].manifest(item.repository, row["digest"]) for row in index["manifests"])
    assert ecr.repositories == [item.repository for item in items]


def test_a_second_run_copies_nothing(apply: Any, publish: Publish, file: Path) -> None:
    item = Copy("public.ecr.aws/a/twice:1", "dpd/a/twice", "1", None)
    publish(item.source)
    apply([item])
    first = file.read_bytes()

    said = apply([item])

    assert [line.split()[0] for line in said] == ["have", "have"]
    assert file.read_bytes() == first


def test_a_source_by_digest_is_copied_by_digest(
    apply: Any, publish: Publish, registries: Mapping[str, Any]
) -> None:
    digest = publish("nvcr.io/a/pinned:1")
    publish("nvcr.io/a/pinned:2")
    apply([Copy(f"nvcr.io/a/pinned:2@{digest}", "dpd/a/pinned", "2", None)])

    assert registries[TARGET].manifest("dpd/a/pinned", "2")[0] == digest


def test_a_tag_that_holds_other_bytes_is_refused(apply: Any, publish: Publish, file: Path) -> None:
    old, new = publish("nvcr.io/a/moved:1"), publish("nvcr.io/a/moved:2")
    apply([Copy(f"nvcr.io/a/moved@{old}", "dpd/a/moved", "1", None)])
    first = file.read_bytes()

    with pytest.raises(MirrorFailed, match=f"holds {old}.*{new} is wanted"):
        apply([Copy(f"nvcr.io/a/moved@{new}", "dpd/a/moved", "1", None)])
    assert file.read_bytes() == first


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("public.ecr.aws/a/absent:1", "manifest unknown"),
        ("registry.example/a/b:1", "Forbidden"),
    ],
    ids=["no such image", "no such registry"],
)
def test_what_cannot_be_read_is_told_in_the_tool_s_words(
    apply: Any, file: Path, source: str, words: str
) -> None:
    with pytest.raises(MirrorFailed, match=f"copying {source}: skopeo ended with 1: .*{words}"):
        apply([Copy(source, "dpd/a/absent", "1", None)])
    assert not file.exists()


def test_a_wrong_password_copies_nothing(
    apply: Any, publish: Publish, ecr: Any, registries: Mapping[str, Any], file: Path
) -> None:
    publish("public.ecr.aws/a/locked:1")
    ecr.password = "wrong"

    with pytest.raises(MirrorFailed, match="unauthorized"):
        apply([Copy("public.ecr.aws/a/locked:1", "dpd/a/locked", "1", None)])
    assert registries[TARGET].manifest("dpd/a/locked", "1") is None
    assert not file.exists()
