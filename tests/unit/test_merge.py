"""Layers merge key by key, and each value remembers who set it."""

from __future__ import annotations

from dpd.spec.merge import Merged, Origin, merge

FILE = Origin("model.yaml", 3, "a")
LAYER = Origin("env.yaml", 9, "overrides.m.a")


def test_mappings_merge_and_everything_else_replaces() -> None:
    base = Merged({"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3})
    merged = merge(base, {"a": {"y": 5}, "b": [9], "c": {"d": 1}}, {})
    assert merged.data == {"a": {"x": 1, "y": 5}, "b": [9], "c": {"d": 1}}
    assert base.data == {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}, "the base stays as it is"


def test_the_upper_layer_owns_what_it_sets_and_nothing_else() -> None:
    base = Merged({"a": {"x": 1, "y": 2}}, {("a", "x"): FILE, ("a", "y"): FILE, ("a",): FILE})
    merged = merge(base, {"a": {"y": 5}}, {("a",): LAYER, ("a", "y"): LAYER})
    assert merged.origins[("a", "x")] == FILE
    assert merged.origins[("a", "y")] == LAYER


def test_a_replaced_mapping_forgets_the_origins_below_it() -> None:
    base = Merged({"a": {"x": 1}}, {("a",): FILE, ("a", "x"): FILE})
    merged = merge(base, {"a": 5}, {("a",): LAYER})
    assert merged.is_set(("a",))
    assert not merged.is_set(("a", "x"))


def test_an_unset_path_is_looked_for_at_its_nearest_parent() -> None:
    merged = Merged({}, {("a",): FILE}, Origin("model.yaml", None, ""))
    assert merged.origin(("a", "b", 0)) == Origin("model.yaml", 3, "a.b[0]")
    assert merged.origin(("z", "y")) == Origin("model.yaml", None, "z.y")
    assert merged.origin(("a", 1)).path == "a[1]"


def test_an_origin_reads_as_file_and_line() -> None:
    assert FILE.text() == "model.yaml:3"
    assert Origin("command line", None, "a").text() == "command line"
