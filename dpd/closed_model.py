"""Closed, frozen schemas whose every error becomes a finding that says what is allowed."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from dpd.finding import Finding, Severity
from dpd.yaml_file import Path_

_PYDANTIC_TAGS = {"str", "int", "float", "bool", "none"}


class ClosedModel(BaseModel):
    """Refuse unknown keys and mutation; the base of every configuration and fact schema."""

    # Most schemas stand inside others, and are built there; 30 ms of each command's start.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=False, use_attribute_docstrings=True, defer_build=True
    )


Locate = Callable[[Path_], tuple[str, int | None, str]]
"""Map a path to the file, line and dotted path that a person would look up."""


Model = TypeVar("Model", bound=ClosedModel)


def validate(
    model: type[Model], data: Mapping[str, object], locate: Locate
) -> tuple[Model | None, list[Finding]]:
    """Build ``model`` from ``data``, or return every CFG001, CFG002 and CFG003 finding at once."""
    try:
        return model.model_validate(dict(data)), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    findings: dict[tuple[str, str], Finding] = {}
    for detail in details:
        finding = _finding(model, detail, locate)
        findings.setdefault((finding.id, finding.path), finding)
    return None, list(findings.values())


def _finding(model: type[ClosedModel], detail: ErrorDetails, locate: Locate) -> Finding:
    path, owner = _resolve(model, detail["loc"])
    kind = detail["type"]
    if kind in {"extra_forbidden", "invalid_key"}:
        return _unknown_key(path, owner, locate)
    if kind == "missing":
        return _missing_key(path, owner, locate)
    return _wrong_value(path, detail, locate)


def _unknown_key(path: Path_, owner: type[BaseModel] | None, locate: Locate) -> Finding:
    key = str(path[-1])
    allowed = sorted(info.alias or name for name, info in owner.model_fields.items()) if owner else []
    near = difflib.get_close_matches(key.lower(), allowed, n=1, cutoff=0.5)
    near = near or [name for name in allowed if name.startswith(key.lower())][:1]
    file, line, place = locate(path)
    hint = f"did you mean `{near[0]}`?" if near else "remove it;"
    return Finding(
        id="CFG001",
        severity=Severity.ERROR,
        path=place,
        message=f"unknown key `{key}`",
        got=key,
        allowed=allowed,
        fix=f"{hint} allowed here: {', '.join(allowed)}",
        file=file,
        line=line,
    )


def _missing_key(path: Path_, owner: type[BaseModel] | None, locate: Locate) -> Finding:
    key = str(path[-1])
    sample = minimal_sample(owner, key) if owner else f"{key}: ..."
    file, line, place = locate(path)
    return Finding(
        id="CFG002",
        severity=Severity.ERROR,
        path=place,
        message=f"missing key `{key}`",
        allowed=sample,
        fix=f"add `{sample}`",
        file=file,
        line=line,
    )


def _wrong_value(path: Path_, detail: ErrorDetails, locate: Locate) -> Finding:
    got = cast("object", detail.get("input"))
    message = detail["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    shown = "" if _is_composite(got) or repr(got) in message else f", got {got!r}"
    context = detail.get("ctx") or {}
    allowed = context.get("expected", context.get("pattern"))
    file, line, place = locate(path)
    return Finding(
        id="CFG003",
        severity=Severity.ERROR,
        path=place,
        message=f"{message}{shown}",
        got=got,
        allowed=None if allowed is None else str(allowed),
        fix=_quotes(detail),
        file=file,
        line=line,
    )


def _is_composite(value: object) -> bool:
    return isinstance(value, dict | list)


def _quotes(detail: ErrorDetails) -> str:
    """Ask for quotes where YAML read a number or a switch and the schema wants text."""
    if detail["type"] != "string_type" or not isinstance(detail.get("input"), int | float):
        return ""
    return f"put the {'key' if detail['loc'][-1] == '[key]' else 'value'} in quotes"


def _resolve(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[Path_, type[BaseModel] | None]:
    """Return the path as it stands in the file, and the model that owns its last key.

    pydantic puts the tags of unions and validators into ``loc``; only keys and indices are kept.
    """
    path: list[str | int] = []
    node: Any = model
    owner: type[BaseModel] | None = model
    for part in loc:
        shapes = {get_origin(candidate) for candidate in _alternatives(node)}
        if dict not in shapes and isinstance(part, str) and ("[" in part or part in _PYDANTIC_TAGS):
            continue
        path.append(part if shapes & {list, tuple} else str(part))
        owner = _model_in(node)
        node = _child(node, part)
    return tuple(path), owner


def _child(node: Any, part: str | int) -> Any:
    """Return the annotation of what stands under ``part``: a field, a map's value or a list's item."""
    owner = _model_in(node)
    if owner is not None:
        return owner.model_fields[part].annotation if part in owner.model_fields else None
    for candidate in _alternatives(node):
        if get_origin(candidate) in {dict, list, tuple}:
            return get_args(candidate)[-1 if get_origin(candidate) is dict else 0]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first model class named in an annotation such as ``Role | None``."""
    for candidate in _alternatives(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, types.UnionType} else (annotation,)


def minimal_sample(owner: type[BaseModel], key: str) -> str:
    """Return the shortest YAML flow snippet that would satisfy ``key`` of ``owner``."""
    info = owner.model_fields.get(key)
    if info is None:
        return f"{key}: ..."
    if info.examples:
        return f"{key}: {info.examples[0]}"
    inner = _model_in(info.annotation)
    if inner is None:
        return f"{key}: ..."
    parts = [minimal_sample(inner, name) for name, item in inner.model_fields.items() if _required(item)]
    return f"{key}: {{{', '.join(parts)}}}"


def _required(info: Any) -> bool:
    return info.default is PydanticUndefined and info.default_factory is None
