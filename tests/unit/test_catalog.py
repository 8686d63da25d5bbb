"""Every file is read, every mistake reported at once and at its place, and layers keep their order."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dpd.finding import Finding
from dpd.rules import check
from dpd.spec.catalog import COMMAND_LINE, Catalog, load_catalog

ROOT = Path(__file__).resolve().parents[2]


def places(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(found.id, Path(found.file).name, found.path) for found in findings]


def test_the_repository_loads_without_findings(catalog: Catalog) -> None:
    assert catalog.findings == ()
    assert {"dev", "staging", "prod"} <= set(catalog.environments)
    assert {"llama-3.3-70b", "qwen2.5-72b", "gpt-oss-120b"} <= set(catalog.models)


def test_a_folder_that_is_not_there_is_one_finding_a_part(tmp_path: Path) -> None:
    loaded = load_catalog(tmp_path / "nowhere")
    assert loaded.facts is None
    assert [(found.id, Path(found.file).name) for found in loaded.findings] == [
        ("CFG005", "facts"),
        ("CFG005", "environments"),
        ("CFG005", "models"),
    ]
    assert all("--config-dir" in found.fix for found in loaded.findings)


def test_an_empty_folder_says_so(workspace: Any) -> None:
    shutil.rmtree(workspace.folder / "models")
    (workspace.folder / "models").mkdir()
    found = workspace.load().findings
    assert ("CFG005", "models", "") in places(found)
    assert any("has no YAML file" in item.message for item in found)


def test_a_missing_or_bad_table_leaves_no_facts(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    facts = tmp_path / "config" / "facts"
    (facts / "prices.yaml").unlink()
    table = facts / "regions.yaml"
    table.write_text(table.read_text().replace("  as_of:", "  as_off:", 1))
    (facts / "quotas.yaml").write_text("a: 5\n")
    loaded = load_catalog(tmp_path / "config")
    assert loaded.facts is None
    assert sorted(places(list(loaded.findings))) == [
        ("CFG001", "regions.yaml", "us-east-1.as_off"),
        ("CFG002", "regions.yaml", "us-east-1.as_of"),
        ("CFG003", "quotas.yaml", "a"),
        ("CFG005", "prices.yaml", ""),
    ]
    assert check(loaded) == list(loaded.findings)


def test_errors_of_all_files_are_reported_together(workspace: Any) -> None:
    workspace.path("dev").write_text("name: dev\n\tregion: x\n")
    workspace.path("staging").write_text("")
    workspace.edit("prod", {"regoin": "x"})
    workspace.edit("llama", {"serving.tensor_parallel": "many"})
    workspace.path("gpt").write_bytes(b"name: caf\xe9\n")
    assert sorted(places(check(workspace.load()))) == [
        ("CFG001", "prod.yaml", "regoin"),
        ("CFG003", "llama-3.3-70b.yaml", "serving.tensor_parallel"),
        ("CFG005", "dev.yaml", ""),
        ("CFG005", "gpt-oss-120b.yaml", ""),
        ("CFG005", "staging.yaml", ""),
    ]


@pytest.mark.parametrize(
    ("edits", "path", "says"),
    [
        ({"dev": {"kubernetes.version": 1.34}}, "kubernetes.version", ["got 1.34", "quotes"]),
        ({"llama": {"dpd.pd_buffer": 8}}, "dpd.pd_buffer", ["bare value 8", "8GiB"]),
        ({"llama": {"dpd.pd_buffer": "8GB"}}, "dpd.pd_buffer", ["'8GB'", "did you mean GiB?"]),
        ({"llama": {"serving.max_model_len": "long"}}, "serving.max_model_len", ["'long'"]),
        ({"llama": {"serving.max_model_len": 0}}, "serving.max_model_len", ["got 0"]),
        ({"llama": {"serving.max_model_len": 10**400}}, "serving.max_model_len", ["1000000000"]),
        ({"llama": {"workload.requests_per_second": float("inf")}}, "workload.requests_per_second", ["inf"]),
        ({"llama": {"architecture.parameters": float("inf")}}, "architecture.parameters", ["inf"]),
        ({"llama": {"serving.mode": "disagregated"}}, "serving.mode", ["'disaggregated' or 'colocated'"]),
        ({"llama": {"serving.gpu_memory_utilization": 1}}, "serving.gpu_memory_utilization", ["less than 1"]),
        ({"llama": {"dpd.environment": {"A": 0}}}, "dpd.environment.A", ["got 0", "quotes"]),
        ({"llama": {"autoscaling.prefill": {"min": 3, "max": 2}}}, "autoscaling.prefill", ["less than min"]),
        ({"llama": {"weights": {"source": "s3"}}}, "weights", ["needs `prefix`"]),
        ({"llama": {"weights": {"source": "fsx"}}}, "weights", ["needs `file_system_id`"]),
        ({"llama": {"architecture.kv_heads": 7}}, "architecture", ["64", "multiple of kv_heads (7)"]),
        ({"llama": {"architecture.attention": "mla"}}, "architecture", ["kv_lora_rank"]),
        ({"dev": {"network.gpu_subnet_cidr": "10.1.0.0/8"}}, "network.gpu_subnet_cidr", ["10.1.0.0/8"]),
        ({"dev": {"gpu_zone_id": "us-west-2a"}}, "gpu_zone_id", ["us-west-2a"]),
        ({"dev": {"account": 111122223333}}, "account", ["quotes"]),
        ({"dev": {"hyperpod": None}}, "hyperpod", ["dictionary"]),
        (
            {"dev": {"accept": {"IMG003": {"severity": "error", "reason": "x" * 10}}}},
            "accept.IMG003.severity",
            [],
        ),
        ({"dev": {"accept": {"IMG003": {"severity": "info", "reason": "no"}}}}, "accept.IMG003.reason", []),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)
def test_a_wrong_value_is_one_finding_at_its_key(
    workspace: Any, edits: dict[str, Any], path: str, says: list[str]
) -> None:
    for name, values in edits.items():
        workspace.edit(name, values)
    (found,) = check(workspace.load())[:1]
    assert (found.id, found.path) == ("CFG003", path)
    assert found.line is not None
    for text in says:
        assert text in found.text()


def test_a_missing_key_shows_what_to_write(workspace: Any) -> None:
    workspace.edit("dev", {"hyperpod.groups.decode": ...})
    workspace.edit("llama", {"weights": ...})
    found = {item.path: item for item in check(workspace.load())}
    assert found["hyperpod.groups.decode"].id == "CFG002"
    assert "decode: {instance_type: ml.p5.48xlarge, count: 1}" in found["hyperpod.groups.decode"].fix
    assert "weights: {source: s3}" in found["weights"].fix


def test_a_file_named_otherwise_than_its_content(workspace: Any) -> None:
    workspace.edit("dev", {"name": "development"})
    (found,) = workspace.load().findings
    assert (found.id, found.path) == ("CFG004", "name")
    assert "`development` differs from the file's name `dev`" in found.message


def test_two_files_of_one_name_are_refused(workspace: Any) -> None:
    shutil.copy(workspace.path("dev"), workspace.folder / "environments" / "dev.yml")
    (found,) = workspace.load().findings
    assert found.id == "CFG004"
    assert "same name" in found.message


@pytest.mark.parametrize(
    ("edits", "path", "says"),
    [
        ({"models": ["llama-3.3-70"]}, "models[0]", "did you mean `llama-3.3-70b`?"),
        ({"models": ["llama-3.3-70b", "llama-3.3-70b"]}, "models[1]", "listed twice"),
        ({"overrides": {"qwen3-32b": {}}}, "overrides.qwen3-32b", "does not serve"),
    ],
)
def test_names_that_disagree(workspace: Any, edits: dict[str, Any], path: str, says: str) -> None:
    workspace.edit("dev", edits)
    (found,) = workspace.load().findings
    assert (found.id, found.path) == ("CFG004", path)
    assert says in found.text()


def test_an_override_s_mistake_points_into_the_environment_file(workspace: Any) -> None:
    path = workspace.path("dev")
    path.write_text(path.read_text() + "overrides:\n  llama-3.3-70b:\n    dpd:\n      pd_bufer: 8GiB\n")
    (found,) = check(workspace.load(), ["dev"])
    assert (found.id, found.file, found.path) == ("CFG001", str(path), "overrides.llama-3.3-70b.dpd.pd_bufer")
    assert path.read_text().splitlines()[(found.line or 0) - 1].strip() == "pd_bufer: 8GiB"


def test_a_rule_about_an_override_points_into_the_environment_file(workspace: Any) -> None:
    workspace.edit("dev", {("overrides", "llama-3.3-70b", "workload"): {"concurrency": 100}})
    (found,) = check(workspace.load(), ["dev"])
    assert (found.id, found.path) == ("WRK003", "overrides.llama-3.3-70b.workload.concurrency")
    assert found.file == str(workspace.path("dev"))


@pytest.mark.parametrize("item", ["name=other", "dpd.pd_bufer=8GiB", "dpd.pd_buffer=8", "dpd=5"])
def test_a_mistake_of_set_is_the_command_line_s(workspace: Any, item: str) -> None:
    found = check(workspace.load([item]), ["dev", "staging"])
    assert {(result.file, result.line) for result in found} == {(COMMAND_LINE, None)}
    assert len(found) == 1
    assert found[0].path == item.partition("=")[0]


def test_a_rule_about_a_set_value_is_the_command_line_s(workspace: Any) -> None:
    (found,) = check(workspace.load(["workload={concurrency: 100}"]), ["dev"])
    assert (found.id, found.file, found.path) == ("WRK003", COMMAND_LINE, "workload.concurrency")


@pytest.mark.parametrize("item", ["", "x", "=5", "a..b=1", ".=1", "a=[", "a=2026-13-45", "a=" + "[" * 1500])
def test_a_malformed_set_is_one_finding(workspace: Any, item: str) -> None:
    (found,) = workspace.load([item]).findings
    assert (found.id, found.file) == ("CFG003", COMMAND_LINE)
    assert "KEY=VALUE" in found.message


def test_an_override_may_not_rename_a_model(workspace: Any) -> None:
    workspace.edit("dev", {("overrides", "llama-3.3-70b", "name"): "other"})
    (found,) = check(workspace.load(), ["dev"])
    assert (found.id, found.path) == ("CFG004", "overrides.llama-3.3-70b.name")


def test_precedence_is_default_file_override_command_line(workspace: Any) -> None:
    def threshold(sets: tuple[str, ...] = ()) -> int:
        value = workspace.load(sets).effective("dev", "llama-3.3-70b")[0].value
        assert value is not None
        return int(value.dpd.routing.threshold_tokens)

    workspace.edit("llama", {"dpd.routing": ...})
    assert threshold() == 4096
    workspace.edit("llama", {"dpd.routing": {"threshold_tokens": 1000}})
    assert threshold() == 1000
    workspace.edit("dev", {("overrides", "llama-3.3-70b", "dpd", "routing"): {"threshold_tokens": 2000}})
    assert threshold() == 2000
    assert threshold(("dpd.routing.threshold_tokens=3000",)) == 3000
    assert threshold(("dpd.routing.threshold_tokens=3000", "dpd.routing={threshold_tokens: 500}")) == 500


def test_an_override_leaves_other_environments_and_keys_alone(workspace: Any) -> None:
    workspace.edit("dev", {("overrides", "llama-3.3-70b", "dpd", "routing"): {"threshold_tokens": 2000}})
    loaded = workspace.load()
    dev, staging = (loaded.effective(name, "llama-3.3-70b")[0].value for name in ("dev", "staging"))
    assert dev is not None
    assert staging is not None
    assert (dev.dpd.routing.strategy, dev.dpd.pd_buffer) == ("prefixaware", 8 * 2**30)
    assert staging.dpd.routing.threshold_tokens == 4096


def test_an_override_with_the_same_value_is_still_its_origin(workspace: Any) -> None:
    workspace.edit("dev", {("overrides", "llama-3.3-70b", "dpd", "pd_buffer"): "8GiB"})
    merged = workspace.load().effective("dev", "llama-3.3-70b")[0].merged
    assert merged.origin(("dpd", "pd_buffer")).file == str(workspace.path("dev"))
    assert merged.origin(("dpd", "transport")).file == str(workspace.path("llama"))


def test_a_model_with_a_wrong_file_is_reported_once(workspace: Any) -> None:
    workspace.edit("llama", {"dpd.pd_buffer": 8})
    found = check(workspace.load())
    assert [item.id for item in found if "llama" in item.file] == ["CFG003"]


def test_models_that_are_one_in_the_cluster_are_refused(workspace: Any) -> None:
    llama = (workspace.folder / "models" / "llama-3.3-70b.yaml").read_text()
    twin = llama.replace("name: llama-3.3-70b", "name: llama-3-3-70b", 1)
    (workspace.folder / "models" / "llama-3-3-70b.yaml").write_text(twin)
    dev = workspace.folder / "environments" / "dev.yaml"
    dev.write_text(
        dev.read_text().replace("models: [llama-3.3-70b]", "models: [llama-3.3-70b, llama-3-3-70b]")
    )
    findings = load_catalog(workspace.folder).findings
    assert places(list(findings)) == [("CFG004", "dev.yaml", "models[1]")]
    assert "would both be `llama-3-3-70b`" in findings[0].message


def test_a_model_listed_twice_is_told_to_stand_once(workspace: Any) -> None:
    dev = workspace.folder / "environments" / "dev.yaml"
    dev.write_text(
        dev.read_text().replace("models: [llama-3.3-70b]", "models: [llama-3.3-70b, llama-3.3-70b]")
    )
    (finding,) = load_catalog(workspace.folder).findings
    assert (finding.id, finding.fix) == ("CFG004", "list it once")


@pytest.mark.parametrize("item", ["network.closed=true", "serving.tensor_parallel.x=1", "nonsense=1"])
def test_what_the_command_line_set_wrong_is_placed_there(catalog: Catalog, item: str) -> None:
    loaded = load_catalog(ROOT / "config", [item])
    _, findings = loaded.effective("dev", "llama-3.3-70b")
    assert [found.file for found in findings] == [COMMAND_LINE]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tags", {"aws:x": "y"}),
        ("tags", {"": "y"}),
        ("tags", {"hyperpod-dpd/environment": "y"}),
        ("tags", {"x": "y" * 257}),
        ("tags", {f"key{number}": "y" for number in range(41)}),
        ("name", "dev-"),
    ],
)
def test_what_aws_would_refuse_is_refused(check: Any, path: str, value: object) -> None:
    findings = check(dev={path: value})
    assert {found.id for found in findings} <= {"CFG003", "CFG004"}
    assert any(found.id == "CFG003" and found.path.startswith(path) for found in findings)


@pytest.mark.parametrize("prefix", ["/", "*/", "../x*/", "a//b/", "a/../b"])
def test_a_prefix_that_would_widen_the_role_is_refused(check: Any, prefix: str) -> None:
    findings = check(llama={"weights.prefix": prefix})
    assert [(found.id, found.path) for found in findings] == [("CFG003", "weights.prefix")]
