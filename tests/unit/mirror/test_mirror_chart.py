"""The base chart goes into a bucket, and everything that was copied into one file."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from dpd.facts import Facts
from dpd.ops.mirror import apply_mirror
from dpd.ops.mirror_chart import build_archive, ensure_bucket
from dpd.ops.mirror_plan import Copy
from dpd.ops.registry_copy import MirrorFailed
from dpd.spec.base_chart import ChartPin
from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror, MirroredChart

ROOT = Path(__file__).resolve().parents[3]
FETCH = ROOT / "constructs/dpd_constructs/base_chart_scripts/fetch.sh"
ACCOUNT, REGION = "111122223333", "us-west-2"
DIGEST = f"sha256:{'ab' * 32}"
VLLM = Copy("public.ecr.aws/dlc/vllm:v1", "dpd/dlc/vllm", "v1", None)


def dev(catalog: Catalog, **changes: Any) -> Environment:
    value = catalog.environments["dev"].value
    assert value is not None
    return value.model_copy(update=changes)


def test_the_archive_holds_the_chart_with_its_dependencies(chart: ChartPin) -> None:
    archive = build_archive(chart, FETCH)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = {entry.name: entry for entry in opened if entry.isfile()}
        assert set(files) == {"helm/chart/Chart.yaml", "helm/chart/charts/plugin.tgz"}
        assert {(entry.mtime, entry.uid, entry.uname) for entry in files.values()} == {(0, 0, "")}
    assert archive == build_archive(chart, FETCH)


def test_another_archive_than_pinned_is_not_uploaded(chart: ChartPin) -> None:
    pinned = ChartPin(chart.repository, chart.commit, chart.folder, "ab" * 32)
    with pytest.raises(MirrorFailed, match=f"configured is {'ab' * 32}"):
        build_archive(pinned, FETCH)


def test_helm_and_git_are_asked_for_by_name(tools: Any, chart: ChartPin) -> None:
    (tools.folder / "helm").unlink()
    (tools.folder / "git").unlink()
    with pytest.raises(MirrorFailed, match="git and helm not on the PATH"):
        build_archive(chart, FETCH)


@pytest.mark.parametrize("exists", [False, True])
def test_the_bucket_is_private_however_it_came_to_be(aws: Any, *, exists: bool) -> None:
    aws.bucket("dpd-dev-mirror", exists=exists)
    ensure_bucket(aws.clients["s3"], "dpd-dev-mirror", REGION)


def test_the_first_region_takes_no_constraint(aws: Any) -> None:
    s3 = aws.stubs["s3"]
    s3.add_client_error("create_bucket", "AccessDenied", expected_params={"Bucket": "b"})
    with pytest.raises(Exception, match="AccessDenied"):
        ensure_bucket(aws.clients["s3"], "b", "us-east-1")


Apply = Callable[[Environment], Mirror]


@pytest.fixture
def apply(aws: Any, facts: Facts, tmp_path: Path, chart: ChartPin) -> Apply:
    """Return a run of `--apply` for one image and the chart of the test's own repository."""
    row = facts.charts["hyperpod-base"].model_copy(
        update={"repository": chart.repository, "commit": chart.commit, "folder": chart.folder}
    )
    own = replace(facts, charts={"hyperpod-base": row})
    aws.stubs["sts"].add_response("get_caller_identity", {"Account": ACCOUNT}, {})

    def run(environment: Environment) -> Mirror:
        file = tmp_path / "mirror/dev.yaml"
        return apply_mirror(
            environment, [VLLM], own, aws.all(), file=file, fetch_script=FETCH, say=lambda _: None
        )

    return run


def test_credentials_of_another_account_copy_nothing(apply: Apply, catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(MirrorFailed, match="credentials are of account 111122223333, and dev names 9999"):
        apply(dev(catalog, account="999988887777"))
    assert not (tmp_path / "mirror").exists()


def test_everything_is_recorded_in_one_file(
    apply: Apply, aws: Any, catalog: Catalog, tmp_path: Path, chart: ChartPin
) -> None:
    aws.repository(VLLM)
    aws.image(VLLM, DIGEST)
    name = f"dpd-dev-mirror-{ACCOUNT}-{REGION}"
    aws.bucket(name)
    archive = build_archive(chart, FETCH)
    sha256 = hashlib.sha256(archive).hexdigest()
    key = f"charts/{chart.commit}-{sha256[:16]}.tar"
    asked = {"Bucket": name, "Key": key, "Body": archive, "ContentType": "application/x-tar"}
    aws.stubs["s3"].add_response("put_object", {}, asked)
    mirror = apply(dev(catalog))
    assert mirror.chart == MirroredChart(commit=chart.commit, uri=f"s3://{name}/{key}", sha256=sha256)
    written = yaml.safe_load((tmp_path / "mirror/dev.yaml").read_text())
    assert written == mirror.model_dump(mode="json")
    assert written["images"][VLLM.source]["digest"] == DIGEST


def test_a_chart_that_is_there_stays(apply: Apply, aws: Any, catalog: Catalog, chart: ChartPin) -> None:
    aws.repository(VLLM, exists=True)
    aws.image(VLLM, DIGEST)
    recorded = MirroredChart(commit=chart.commit, uri="s3://b/charts/x.tar", sha256="cd" * 32)
    aws.stubs["s3"].add_response("head_object", {}, {"Bucket": "b", "Key": "charts/x.tar"})
    assert apply(dev(catalog, mirror=Mirror(chart=recorded))).chart == recorded


def test_a_failure_leaves_the_file_as_it_was(
    apply: Apply, aws: Any, catalog: Catalog, tmp_path: Path
) -> None:
    aws.repository(VLLM)
    aws.stubs["ecr"].add_client_error("describe_images", "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        apply(dev(catalog))
    assert not (tmp_path / "mirror").exists()
