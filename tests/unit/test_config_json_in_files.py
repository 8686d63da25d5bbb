"""A model file, or an environment, names a config.json instead of an architecture's keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpd.plan import build_plan
from dpd.plan_origins import explain_values
from dpd.spec.model_family import FAMILIES

LLAMA_70B = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
MISTRAL_7B = LLAMA_70B | {
    "model_type": "mistral",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "sliding_window": 4096,
}


def with_json(workspace: Any, config: dict[str, Any], **beside: object) -> Path:
    path: Path = workspace.folder / "models" / "llama" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config), encoding="utf-8")
    workspace.edit("llama", {"architecture": {"config_json": "llama/config.json", **beside}})
    return path


def test_a_model_file_may_name_a_config_json_relative_to_itself(workspace: Any) -> None:
    with_json(workspace, LLAMA_70B)
    catalog = workspace.load()
    assert catalog.findings == ()
    assert catalog.models["llama-3.3-70b"].value.architecture.parameters == pytest.approx(70.55e9, rel=1e-3)


def test_keys_beside_it_win_and_the_plan_names_both_places(workspace: Any) -> None:
    path = with_json(workspace, LLAMA_70B, parameters=70.6e9)
    catalog = workspace.load()
    plan = build_plan(catalog, catalog.facts, catalog.environments["dev"].value, ["llama-3.3-70b"], [])
    rows = {row["key"]: row for row in explain_values(plan.models[0].deployment.model, plan.models[0].merged)}
    assert rows["architecture.parameters"]["value"] == "70600000000.0"
    assert rows["architecture.parameters"]["origin"].startswith(str(workspace.path("llama")) + ":")
    assert rows["architecture.layers"] == {
        "key": "architecture.layers",
        "value": "80",
        "origin": str(path),
    }


def test_an_environment_may_name_another_config_json(workspace: Any) -> None:
    with_json(workspace, LLAMA_70B)
    other = workspace.folder / "environments" / "small.json"
    other.write_text(json.dumps(MISTRAL_7B), encoding="utf-8")
    override = {"architecture": {"config_json": "small.json"}}
    workspace.edit("dev", {("overrides", "llama-3.3-70b"): override})
    model, findings = workspace.load().effective("dev", "llama-3.3-70b")
    assert findings == []
    assert (model.value.architecture.layers, model.value.architecture.sliding_window) == (32, 4096)


def test_a_missing_file_is_one_finding_at_the_line_that_names_it(workspace: Any) -> None:
    workspace.edit("llama", {"architecture": {"config_json": "absent.json"}})
    (finding,) = workspace.load().findings
    line = workspace.path("llama").read_text().splitlines().index("  config_json: absent.json") + 1
    assert (finding.id, finding.path, finding.line) == ("CFG003", "architecture.config_json", line)
    assert "absent.json cannot be read: No such file or directory" in finding.text()
    assert set(FAMILIES) == set(finding.allowed)


def test_a_value_that_the_schema_refuses_is_reported_in_the_json_file(workspace: Any) -> None:
    path = with_json(workspace, LLAMA_70B | {"num_key_value_heads": 7})
    (finding,) = workspace.load().findings
    assert (finding.id, finding.path) == ("CFG003", "architecture")
    assert "multiple of kv_heads (7)" in finding.message
    with_json(workspace, LLAMA_70B | {"num_key_value_heads": 0})
    (finding,) = workspace.load().findings
    assert (finding.path, finding.file) == ("kv_heads", str(path))


def test_an_architecture_without_keys_still_names_what_is_missing(workspace: Any) -> None:
    workspace.edit("llama", {"architecture": {"moe": False}})
    missing = {finding.path for finding in workspace.load().findings if finding.id == "CFG002"}
    assert "architecture.layers" in missing
