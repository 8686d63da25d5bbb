"""Strict validation against a definition, on one small enough to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpd.crd import CrdSchema, load_crd, validate_builtin, validate_manifest

DEFINITION = """
spec:
  group: example.com
  names: {kind: Widget}
  versions:
    - name: v1alpha1
      storage: false
      schema: {openAPIV3Schema: {type: object}}
    - name: v1
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              required: [size]
              properties:
                size: {x-kubernetes-int-or-string: true, pattern: '^[0-9]+(Gi)?$'}
                note: {type: string, nullable: true}
                labels: {type: object, additionalProperties: {type: string}}
                parts:
                  type: array
                  items: {type: object, properties: {count: {type: integer, minimum: 1}}}
                free:
                  type: object
                  x-kubernetes-preserve-unknown-fields: true
                  properties: {known: {type: string}}
"""


@pytest.fixture(scope="module")
def crd(tmp_path_factory: pytest.TempPathFactory) -> CrdSchema:
    """Load the definition above."""
    path = tmp_path_factory.mktemp("crd") / "widget.yaml"
    path.write_text(DEFINITION, encoding="utf-8")
    return load_crd(path)


def _problems(crd: CrdSchema, **spec: object) -> list[str]:
    metadata = {"name": "one", "annotations": {"any": "thing"}}
    return validate_manifest(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}, crd
    )


def test_the_stored_version_is_the_one_that_counts(crd: CrdSchema) -> None:
    assert (crd.api_version, crd.kind) == ("example.com/v1", "Widget")


@pytest.mark.parametrize("size", [3, "3Gi"])
def test_int_or_string_takes_both(crd: CrdSchema, size: object) -> None:
    assert _problems(crd, size=size) == []


def test_int_or_string_takes_no_fraction(crd: CrdSchema) -> None:
    assert _problems(crd, size=1.5) == ["spec.size: 1.5 is not of type 'integer', 'string'"]


def test_nullable_takes_null_and_labels_take_any_key(crd: CrdSchema) -> None:
    assert _problems(crd, size=1, note=None, labels={"any": "key"}) == []


def test_unknown_fields_are_refused_except_where_they_are_kept(crd: CrdSchema) -> None:
    assert _problems(crd, size=1, free={"anything": 1}) == []
    assert _problems(crd, size=1, parts=[{"cout": 1}]) == [
        "spec.parts[0]: unknown field `cout` (did you mean `count`?)"
    ]


def test_all_problems_come_at_once_in_the_order_of_their_paths(crd: CrdSchema) -> None:
    assert _problems(crd, note=7, parts=[{"count": 0}]) == [
        "spec: 'size' is a required property",
        "spec.note: 7 is not of type 'string', 'null'",
        "spec.parts[0].count: 0 is less than the minimum of 1",
    ]


def test_another_kind_is_named(crd: CrdSchema) -> None:
    problems = validate_manifest({"apiVersion": "example.com/v1", "kind": "Gadget"}, crd)
    assert problems == ["kind: is 'Gadget', the definition is for 'Widget'"]


@pytest.mark.parametrize("text", ["kind: ConfigMap", "- a list", "spec: {versions: []}", "{", ""])
def test_a_file_that_is_no_definition_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="no CustomResourceDefinition with a stored version"):
        load_crd(path)


def test_builtin_kinds_are_checked_strictly() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}
    assert validate_builtin(namespace, "1.34") == []
    (problem,) = validate_builtin({**namespace, "specc": {}}, "1.34")
    assert "specc" in problem


def test_a_kind_that_is_not_builtin_is_named() -> None:
    assert validate_builtin({"apiVersion": "example.com/v1", "kind": "Widget"}, "1.34") == [
        "kind: Kubernetes 1.34 has no built-in example.com/v1 Widget"
    ]
