"""Closed schemas report every mistake at once, each with what is allowed."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from dpd.closed_model import ClosedModel, minimal_sample, validate
from dpd.finding import Finding
from dpd.yaml_file import Path_, dotted


class Inner(ClosedModel):
    kind: Annotated[Literal["s3", "fsx"], Field(examples=["s3"])]
    size: Annotated[int, Field(ge=1)] = 1
    from_: Annotated[str | None, Field(alias="from")] = None


class Outer(ClosedModel):
    name: str
    inner: Inner
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}
    labels: dict[str, str] = {}


GOOD: dict[str, object] = {"name": "n", "inner": {"kind": "s3"}}


def locate(path: Path_) -> tuple[str, int | None, str]:
    return "f.yaml", 1, dotted(path)


def findings(data: dict[str, object]) -> list[Finding]:
    value, found = validate(Outer, data, locate)
    assert (value is None) == bool(found)
    return found


def one(data: dict[str, object]) -> Finding:
    (finding,) = findings(GOOD | data)
    return finding


def test_good_data_gives_a_frozen_object() -> None:
    value, found = validate(Outer, GOOD, locate)
    assert value is not None
    assert found == []
    with pytest.raises(ValidationError):
        value.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("data", "path", "nearest"),
    [
        ({"nmae": 1}, "nmae", "name"),
        ({"Labels": {}}, "Labels", "labels"),
        ({"inner": {"kind": "s3", "siez": 2}}, "inner.siez", "size"),
        ({"maybe": {"kind": "s3", "knd": 2}}, "maybe.knd", "kind"),
        ({"many": [{"kind": "s3"}, {"kind": "s3", "sizes": 2}]}, "many[1].sizes", "size"),
        ({"named": {"x": {"kind": "s3", "Kind": 2}}}, "named.x.Kind", "kind"),
    ],
)
def test_an_unknown_key_names_the_nearest(data: dict[str, object], path: str, nearest: str) -> None:
    finding = one(data)
    assert (finding.id, finding.path) == ("CFG001", path)
    assert f"did you mean `{nearest}`?" in finding.fix
    assert nearest in str(finding.allowed)


def test_allowed_keys_are_named_as_the_file_writes_them() -> None:
    finding = one({"inner": {"kind": "s3", "xyz": 1}})
    assert finding.allowed == ["from", "kind", "size"]
    assert "did you mean" not in finding.fix


def test_a_missing_key_shows_a_minimal_sample() -> None:
    finding = next(found for found in findings({"name": "n"}) if found.id == "CFG002")
    assert finding.path == "inner"
    assert "inner: {kind: s3}" in finding.fix


def test_every_mistake_is_reported_at_once() -> None:
    found = findings({"inner": {"kind": "nfs", "size": 0, "x": 1}})
    assert [(item.id, item.path) for item in found] == [
        ("CFG002", "name"),
        ("CFG003", "inner.kind"),
        ("CFG003", "inner.size"),
        ("CFG001", "inner.x"),
    ]


@pytest.mark.parametrize(
    ("data", "path", "says"),
    [
        ({"inner": {"kind": "nfs"}}, "inner.kind", ["'s3' or 'fsx'", "'nfs'"]),
        ({"inner": {"kind": "s3", "size": 0}}, "inner.size", ["greater than or equal to 1", "got 0"]),
        ({"inner": {"kind": "s3", "size": "many"}}, "inner.size", ["integer", "'many'"]),
        ({"inner": [1]}, "inner", ["dictionary"]),
        ({"inner": None}, "inner", ["dictionary", "None"]),
        ({"many": {"kind": "s3"}}, "many", ["tuple"]),
        ({"labels": [1]}, "labels", ["dictionary"]),
    ],
)
def test_a_wrong_value_says_what_is_allowed_and_what_stands_there(
    data: dict[str, object], path: str, says: list[str]
) -> None:
    finding = one(data)
    assert (finding.id, finding.path) == ("CFG003", path)
    for text in says:
        assert text in finding.message


@pytest.mark.parametrize("value", [1.34, 5, True])
def test_an_unquoted_value_where_text_belongs_asks_for_quotes(value: object) -> None:
    finding = one({"labels": {"a": value}})
    assert finding.path == "labels.a"
    assert "quotes" in finding.fix


def test_an_unquoted_key_asks_for_quotes() -> None:
    finding = one({"labels": {5: "five"}})
    assert finding.path == "labels.5"
    assert "quotes" in finding.fix


def test_a_key_that_is_no_text_is_an_unknown_key() -> None:
    _, found = validate(Outer, GOOD | {5: "five"}, locate)  # type: ignore[dict-item]
    assert [(item.id, item.path) for item in found] == [("CFG001", "5")]


def test_keys_named_like_types_keep_their_path() -> None:
    assert one({"labels": {"int": ["x"]}}).path == "labels.int"


def test_a_sample_follows_examples_and_required_keys() -> None:
    assert minimal_sample(Outer, "inner") == "inner: {kind: s3}"
    assert minimal_sample(Outer, "name") == "name: ..."
