"""A file is read with the line of every value; what cannot be read is a finding, never an exception."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dpd import yaml_file
from dpd.yaml_file import dotted, read_yaml


def read(tmp_path: Path, content: str | bytes) -> yaml_file.YamlFile:
    path = tmp_path / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_yaml(path)


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
KEY_LAUGHS = LAUGHS + "? [*a11]\n: x\n"


@pytest.mark.parametrize(
    ("content", "id", "line", "says"),
    [
        pytest.param("", "CFG005", None, "is empty", id="empty"),
        pytest.param("# only a comment\n", "CFG005", None, "is empty", id="comment only"),
        pytest.param("- a\n- b\n", "CFG005", None, "mapping at its top level", id="top-level list"),
        pytest.param("just text\n", "CFG005", None, "mapping at its top level", id="top-level text"),
        pytest.param("a: [1, 2\nb: 3\n", "CFG005", 2, "not valid YAML", id="open bracket"),
        pytest.param("a: 1\n\tb: 2\n", "CFG005", 2, "not valid YAML", id="tab"),
        pytest.param("a: 1\n---\nb: 2\n", "CFG005", 2, "not valid YAML", id="two documents"),
        pytest.param("a: *nowhere\n", "CFG005", 1, "not valid YAML", id="alias of nothing"),
        pytest.param("a: !!python/object:os.system x\n", "CFG005", 1, "not valid YAML", id="python tag"),
        pytest.param(b"a: caf\xe9\n", "CFG005", None, "not UTF-8: byte 6", id="latin-1"),
        pytest.param("a: \x00\n", "CFG005", None, "not valid YAML", id="control character"),
        pytest.param("a: 2026-13-45\n", "CFG005", None, "month must be in 1..12", id="impossible date"),
        pytest.param("a: " + "1" * 5000 + "\n", "CFG005", None, "cannot read", id="huge number"),
        pytest.param("a: 1\n? [b]\n: 2\n", "CFG005", 2, "key", id="list as key"),
        pytest.param(LAUGHS, "CFG005", None, "more than 100000 values", id="billion laughs"),
        pytest.param(KEY_LAUGHS, "CFG005", None, "", id="billion laughs in a key"),
        pytest.param("a: &a [*a]\n", "CFG005", None, "", id="list that holds itself"),
        pytest.param("a: " + "[" * 5000 + "]" * 5000, "CFG005", None, "", id="nested too deeply"),
        pytest.param("a: 1\nb: 2\na: 3\n", "CFG006", 3, "first on line 1, again on line 3", id="key twice"),
    ],
)
def test_bad_content_is_one_finding(
    tmp_path: Path, content: str | bytes, id: str, line: int | None, says: str
) -> None:
    file = read(tmp_path, content)
    assert [finding.id for finding in file.findings] == [id]
    finding = file.findings[0]
    assert says in finding.message
    assert finding.file == str(tmp_path / "file.yaml")
    if line is not None:
        assert finding.line == line
    assert finding.fix
    assert file.data == {}


def test_a_nested_key_that_stands_twice_has_its_full_path(tmp_path: Path) -> None:
    file = read(tmp_path, "a:\n  b: 1\n  b: 2\nc: 3\nc: 4\n")
    assert [(finding.path, finding.line) for finding in file.findings] == [("a.b", 3), ("c", 5)]


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    (finding,) = read_yaml(tmp_path / "nowhere.yaml").findings
    assert finding.id == "CFG005"
    assert "No such file" in finding.message


def test_a_folder_with_a_file_s_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").mkdir()
    (finding,) = read_yaml(tmp_path / "x.yaml").findings
    assert "directory" in finding.message.lower()


def test_the_pure_python_parser_gives_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_file, "_loader", yaml.SafeLoader)
    (finding,) = read(tmp_path, "a: \x00\n").findings
    assert finding.id == "CFG005"


def test_every_value_has_its_line(tmp_path: Path) -> None:
    file = read(tmp_path, "a: 1\nb:\n  c: 2\n  d:\n    - x\n    - y\n")
    assert file.data == {"a": 1, "b": {"c": 2, "d": ["x", "y"]}}
    assert [file.line(path) for path in (("a",), ("b", "c"), ("b", "d", 1))] == [1, 3, 6]
    assert file.line(("b", "absent")) == 2, "an absent key is looked for at its parent"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfname: dev\n").data == {"name": "dev"}


def test_paths_are_written_as_people_write_them() -> None:
    assert dotted(("groups", "decode", 0, "x")) == "groups.decode[0].x"
    assert dotted(()) == ""
