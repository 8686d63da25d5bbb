"""Every rule explains itself, and its two snippets are true: the bad one fires, the good one does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from dpd.finding import Finding, Severity
from dpd.rules import rules
from dpd.rules.registry import Doc, loader_rule
from dpd.spec.environment import Environment
from dpd.spec.local import LocalEnvironment
from dpd.spec.model import Model
from dpd.yaml_file import read_yaml

AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
OUTSIDE_A_FILE = {"CFG005", "CFG006", "EFA004"} | {
    id for id in rules() if id.startswith(("VAL", "VER", "DRL"))
}
"""Rules whose snippets are no configuration: broken YAML, what the validators of `synth` read, what runs."""

WHERE = {"groups": "hyperpod", "node_selector": "dpd.decode", "args": "dpd.decode"}
"""Parents of keys that snippets write without them."""

WHOLE = {"environment", "node_selector", "weights"}
"""Keys whose value a snippet shows in full."""

CONTEXT: dict[str, dict[str, dict[str, object]]] = {
    "CAP002": {"dev": {"hyperpod.groups.decode.training_plan_arn": PLAN}},
    "EFA001": {"gpt": {}},
    "SRV010": {"gpt": {}},
    "SRV012": {"gpt": {}},
    "SCL002": {
        "dev": {
            "hyperpod.groups.prefill.count": 2,
            "hyperpod.groups.decode.count": 2,
            "observability": {"prometheus_url": AMP},
        }
    },
    "SCL005": {"dev": {"hyperpod.groups.prefill.count": 3, "observability": {"prometheus_url": AMP}}},
    "KVC003": {"llama405": {"architecture.quantization": ...}},
    **{id: {"local": {}, "tiny": {}} for id in ("LOC002", "CFG008", "LOC004", "LOC005")},
    "LOC006": {
        "local": {},
        "tiny": {
            "serving.max_model_len": 16384,
            "architecture": {
                "parameters": 1e9,
                "layers": 32,
                "hidden_size": 1024,
                "attention_heads": 8,
                "kv_heads": 8,
                "head_dim": 128,
            },
        },
    },
    "NET001": {"dev": {"hyperpod.groups.prefill.count": 2, "hyperpod.groups.decode.count": 2}},
    "OPR006": {"dev": {"hyperpod.groups.decode.count": 2}},
    "OPR007": {"dev": {"hyperpod.groups.prefill.count": 3}},
}
"""What a snippet says in a comment, or takes for granted."""


def can_be_tried(id: str) -> bool:
    """Tell whether both snippets are configuration; some stand for a digest or an ARN with `...` or `<>`."""
    doc = rules()[id].doc
    in_words = id in {"CAP004", "IMG003", "CLU002"}
    return id not in OUTSIDE_A_FILE and not in_words and not re.search(r"\.\.\.|<", doc.bad + doc.good)


def flat(data: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    """Return nested mappings as edits, one for each leaf."""
    edits: dict[tuple[str, ...], object] = {}
    for key, value in data.items():
        path = (*prefix, str(key))
        nested = isinstance(value, Mapping) and value and path[-1] not in WHOLE
        edits |= flat(value, path) if nested else {path: value}
    return edits


def files_of(id: str, snippet: str) -> dict[str, dict[Any, object]]:
    """Return the edits that put a snippet into an environment or its model, with the rule's context."""
    context = CONTEXT.get(id, {})
    environment = "local" if "local" in context else "dev"
    model = next((name for name in context if name not in {"dev", "local"}), "llama")
    files: dict[str, dict[Any, object]] = {name: dict(edits) for name, edits in context.items()}
    for key, value in yaml.safe_load(snippet).items():
        parents = tuple(WHERE[key].split(".")) if key in WHERE else ()
        top = (*parents, key)[0]
        file = environment if top not in Model.model_fields else model
        assert file == model or top in environment_keys(), f"{id}: {top} is no key"
        files.setdefault(file, {}).update(flat({key: value}, parents))
    return files


def environment_keys() -> set[str]:
    fields = [*Environment.model_fields.items(), *LocalEnvironment.model_fields.items()]
    return {info.alias or name for name, info in fields}


def found(check: Callable[..., list[Finding]], id: str, snippet: str) -> set[str]:
    return {finding.id for finding in check(**files_of(id, snippet))}


@pytest.mark.parametrize("id", rules())
def test_the_documentation_is_complete(id: str) -> None:
    rule = rules()[id]
    assert re.fullmatch(r"[A-Z]{3}[0-9]{3}", id)
    for name in ("title", "symptom", "cause", "fix", "source", "bad", "good"):
        text = getattr(rule.doc, name)
        assert text.strip() == text, name
        assert len(text) > 3, name
    for name in ("symptom", "cause", "fix"):
        assert getattr(rule.doc, name).endswith("."), f"{name} is a sentence"
    assert not rule.doc.title.endswith(".")
    assert rule.doc.bad != rule.doc.good


@pytest.mark.parametrize("id", [id for id in rules() if id not in OUTSIDE_A_FILE])
def test_snippets_are_yaml_mappings(id: str, tmp_path: Any) -> None:
    for name in ("bad", "good"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(getattr(rules()[id].doc, name))
        assert read_yaml(path).findings == ()


@pytest.mark.parametrize("id", [id for id in rules() if can_be_tried(id)])
def test_the_bad_snippet_fires(check: Callable[..., list[Finding]], id: str) -> None:
    assert id in found(check, id, rules()[id].doc.bad)


@pytest.mark.parametrize("id", [id for id in rules() if can_be_tried(id)])
def test_the_good_snippet_does_not(check: Callable[..., list[Finding]], id: str) -> None:
    assert id not in found(check, id, rules()[id].doc.good)


@pytest.mark.parametrize(("name", "ids"), [("bad", ["CFG005"]), ("good", [])])
def test_the_snippets_of_broken_yaml(tmp_path: Any, name: str, ids: list[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(getattr(rules()["CFG005"].doc, name))
    assert [finding.id for finding in read_yaml(path).findings] == ids


@pytest.mark.parametrize(("name", "ids"), [("bad", ["CFG006"]), ("good", [])])
def test_the_snippets_of_a_key_that_stands_twice(tmp_path: Any, name: str, ids: list[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(getattr(rules()["CFG006"].doc, name))
    assert [finding.id for finding in read_yaml(path).findings] == ids


def test_no_id_is_given_twice() -> None:
    doc = Doc("t", "s", "c", "f", "s", "b", "g")
    with pytest.raises(ValueError, match="KVC001 is registered twice"):
        loader_rule("KVC001", Severity.ERROR, doc)


def test_ids_come_in_order() -> None:
    assert list(rules()) == sorted(rules())


def test_the_severities_of_the_contract() -> None:
    warnings = {
        "CAP003",
        "OPR003",
        "OPR007",
        "IMG002",
        "KVC002",
        "RTG002",
        "SCL002",
        "WRK001",
        "WRK003",
        "WRK004",
    }
    errors = {
        *("CFG001", "CFG002", "CFG003", "CFG004", "NET001", "NET002", "NET005", "CAP001", "CAP002", "CAP004"),
        *("CAP005", "CAP006", "CAP007", "CLU001", "OPR001", "OPR002", "OPR004", "OPR005", "OPR006", "IMG001"),
        *("IMG003", "KVC001", "KVC003", "KVC004", "SRV001", "SRV002", "SRV003", "SRV004", "SRV005", "SRV006"),
        *(
            "SRV007",
            "SRV008",
            "EFA001",
            "EFA002",
            "EFA003",
            "EFA004",
            "EFA005",
            "EFA006",
            "RTG001",
            "RTG003",
            "SCL001",
            "SCL003",
            "SEC001",
        ),
    }
    for id in warnings:
        assert rules()[id].severity == "warning", id
    for id in errors:
        assert rules()[id].severity == "error", id
