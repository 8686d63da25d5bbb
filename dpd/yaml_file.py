"""Read one YAML file into plain data that remembers the line of every value."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from dpd.finding import Finding, Severity

Path_ = tuple[str | int, ...]

# Nested anchors can name more values than memory holds ("billion laughs"); no real file comes near.
_MAX_VALUES = 100_000

_loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class YamlFile:
    """Hold the content of a file, the line of each path in it, and what was wrong with it."""

    path: Path
    data: dict[str, object] = field(default_factory=dict[str, object])
    lines: dict[Path_, int] = field(default_factory=dict[Path_, int])
    findings: tuple[Finding, ...] = ()

    def line(self, path: Path_) -> int | None:
        """Return the line of ``path``, or of its nearest parent that stands in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def dotted(path: Path_) -> str:
    """Return ``("groups", "decode", 0)`` as ``groups.decode[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def read_yaml(path: Path) -> YamlFile:
    """Read ``path``; a file that cannot be read gives CFG005 or CFG006 findings and no data."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return _broken(path, f"is not UTF-8: byte {error.start} cannot be decoded", "save the file as UTF-8")
    except OSError as error:
        return _broken(path, f"cannot be read: {error.strerror}", "check the path and its permissions")
    return _compose(path, text)


def _compose(path: Path, text: str) -> YamlFile:
    loader: yaml.SafeLoader | None = None
    try:
        loader = _loader(text)
        node = loader.get_single_node()
        if node is None:
            return _broken(path, "is empty", "copy a file of the same folder")
        if not isinstance(node, yaml.MappingNode):
            return _broken(path, "must hold a mapping at its top level", "write `key: value` lines")
        lines: dict[Path_, int] = {}
        findings: list[Finding] = []
        _index(node, (), lines, findings, str(path))
        data: dict[str, object] = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(part for part in (error.context, error.problem) if part)
        return _broken(
            path, f"is not valid YAML: {problem}", "mend the syntax", mark.line + 1 if mark else None
        )
    except yaml.YAMLError as error:
        return _broken(path, f"is not valid YAML: {error}".splitlines()[0], "remove what YAML does not allow")
    except (ValueError, RecursionError) as error:
        return _broken(path, f"holds a value that YAML cannot read: {error}", "quote the value")
    finally:
        if loader is not None:
            loader.dispose()
    if findings:
        return YamlFile(path, findings=tuple(findings))
    return YamlFile(path, data, lines)


def _index(node: yaml.Node, path: Path_, lines: dict[Path_, int], findings: list[Finding], file: str) -> None:
    """Record the line of every value below ``node`` and report keys that stand twice."""
    if len(lines) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES} values (anchors that repeat each other?)")
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _index(item, (*path, index), lines, findings, file)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[Hashable, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key.start_mark)
        name = key.value
        if name in seen:
            findings.append(
                Finding(
                    id="CFG006",
                    severity=Severity.ERROR,
                    path=dotted((*path, name)),
                    message=f"key stands twice: first on line {seen[name]}, again on line {line}",
                    got=name,
                    fix="keep one of the two",
                    file=file,
                    line=line,
                )
            )
        seen.setdefault(name, line)
        lines[(*path, name)] = line
        _index(value, (*path, name), lines, findings, file)


def _broken(path: Path, message: str, fix: str, line: int | None = None) -> YamlFile:
    finding = Finding(
        id="CFG005", severity=Severity.ERROR, path="", message=message, fix=fix, file=str(path), line=line
    )
    return YamlFile(path, findings=(finding,))
