"""What is generated from the definitions is current, and the repository's files follow it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpd.facts import Facts
from dpd.reference import (
    SCHEMAS,
    configuration_document,
    generated_files,
    json_schema,
    write_generated_files,
)
from dpd.rules import rules

ROOT = Path(__file__).resolve().parents[2]
FILES = [(kind, path) for kind in SCHEMAS for path in sorted((ROOT / "config" / f"{kind}s").glob("*.yaml"))]


class EditorLoader(yaml.SafeLoader):
    """Read numbers as editors do: in YAML 1.2, 70.6e9 is one; PyYAML reads YAML 1.1, where it is text."""


EditorLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[0-9.]+e[0-9]+$"), list("0123456789")
)


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), EditorLoader)


@pytest.mark.parametrize("path", generated_files(ROOT), ids=lambda path: path.name)
def test_the_repository_holds_what_the_definitions_generate(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated_files(ROOT)[path], "run `make docs`"


def test_writing_makes_every_file_current(tmp_path: Path) -> None:
    write_generated_files(tmp_path)
    for path, text in generated_files(tmp_path).items():
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: getattr(value, "name", value))
def test_editors_find_the_schema_and_accept_the_file(kind: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# yaml-language-server: $schema=../schema/{kind}.json\n")
    assert (path.parent / f"../schema/{kind}.json").resolve().exists()
    jsonschema.validate(read(path), json.loads(json_schema(kind)))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_is_valid_and_closed(kind: str) -> None:
    schema = json.loads(json_schema(kind))
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in [schema, *schema["$defs"].values()]:
        if part.get("properties"):
            assert part["additionalProperties"] is False, part["title"]


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("model", {"dpd": {"routing": {"treshold": 1}}}),
        ("model", {"dpd": {"pd_buffer": 8}}),
        ("model", {"dpd": {"pd_buffer": "8GB"}}),
        ("model", {"serving": {"tensor_parallel": "many"}}),
        ("environment", {"gpu_zone_id": "us-west-2a"}),
        ("environment", {"kubernetes": {"version": 1.34}}),
    ],
)
def test_editors_refuse_what_check_refuses(kind: str, edit: dict[str, object]) -> None:
    path = next(path for name, path in FILES if name == kind)
    data = read(path)
    for key, value in edit.items():
        data[key] = data[key] | value if isinstance(value, dict) else value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json.loads(json_schema(kind)))


def test_sizes_are_documented_as_they_are_written() -> None:
    schema = json.loads(json_schema("model"))
    assert schema["$defs"]["Dpd"]["properties"]["pd_buffer"]["default"] == "8GiB"
    text = generated_files(ROOT)[ROOT / "docs" / "configuration.md"]
    assert '| `dpd.pd_buffer` | size, such as `8GiB` | `"8GiB"` |' in text


def test_every_key_of_the_schemas_is_documented() -> None:
    text = generated_files(ROOT)[ROOT / "docs" / "configuration.md"]
    for key in (
        "hyperpod.groups.decode.count",
        "promotion.from",
        "accept",
        "workload.slo.itl_p99_ms",
    ):
        assert f"| `{key}` |" in text


@pytest.mark.parametrize(
    "table",
    [
        "operator",
        "kubernetes",
        "addons",
        "charts",
        "images",
        "engines",
        "vllm",
        "lmcache",
        "nixl",
        "features",
        "regions",
    ],
)
def test_every_row_of_the_compatibility_matrix_has_its_source_and_day(facts: Facts, table: str) -> None:
    lines = generated_files(ROOT)[ROOT / "docs" / "compatibility.md"].splitlines()
    for key, row in getattr(facts, table).items():
        source = " ".join(row.source.split()).replace("|", "\\|")
        ends = f"| {source} | {row.as_of}{'' if row.confirmed else ', unconfirmed'} |"
        assert [line for line in lines if line.startswith(f"| {key} |") and line.endswith(ends)], key


def test_every_rule_is_documented_and_linked() -> None:
    text = generated_files(ROOT)[ROOT / "docs" / "rules.md"]
    for id in rules():
        assert f"| [{id}](#" in text
        assert f"\n## {id}: " in text


def test_the_document_descends_into_optional_sections_and_lists() -> None:
    document = configuration_document()
    for key in ("kubernetes.existing.cluster_name", "lmcache.notify_port", "workers.prefill[].url"):
        assert f"| `{key}` |" in document
