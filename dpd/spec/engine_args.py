"""Read vLLM arguments the way vLLM reads them, whatever their spelling.

vLLM accepts ``--flag value``, ``--flag=value``, short forms such as ``-tp 4`` and ``-O3``, underscores
for dashes, ``--no-flag``, and ``--flag.key value`` for parts of a JSON value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from dpd.facts import VllmFact

Problem = Literal["unknown", "removed", "value", "stray"]

AUTO = "auto"
"""Value of a length that vLLM derives from the model, written ``auto`` or ``-1``."""

# A negative number is a value; everything else that begins with a dash is a flag.
_FLAG = re.compile(r"^--?[A-Za-z]")
_PART = "part"
_WITHOUT_VALUE = {"bool", "switch"}


@dataclass(frozen=True, slots=True)
class ArgProblem:
    """Say what is wrong with one argument."""

    kind: Problem
    flag: str
    text: str
    index: int


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """Hold the value of each flag, last one winning as in argparse, and what could not be read."""

    values: Mapping[str, object] = field(default_factory=dict[str, object])
    indices: Mapping[str, int] = field(default_factory=dict[str, int])
    problems: tuple[ArgProblem, ...] = ()

    def integer(self, flag: str) -> int | None:
        """Return the value of an integer flag, None where it is absent, automatic or unreadable."""
        value = self.values.get(flag)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class _Argument:
    """Hold one argument with its long flag; ``kind`` is None for a flag that the release does not have."""

    index: int
    spelling: str
    name: str
    kind: str | None
    text: str | None = None
    key: tuple[str, ...] = ()
    negated: bool = False


def parse_engine_args(args: Sequence[str], vllm: VllmFact) -> EngineArgs:
    """Parse ``args`` against one vLLM release's table; problems are collected, never raised."""
    values: dict[str, object] = {}
    # vLLM gathers dotted parts and appends them as one JSON value, which wins over one given whole.
    parts: dict[str, object] = {}
    indices: dict[str, int] = {}
    problems: list[ArgProblem] = []
    index = 0
    while index < len(args):
        start = index
        if not _FLAG.match(args[start]):
            index += 1
            # `vllm serve` takes the model as its first word.
            if start:
                problems.append(ArgProblem("stray", "", args[start], start))
            continue
        argument, index = _take(args, start, vllm)
        if argument.kind is None:
            kind: Problem = "removed" if argument.name in vllm.removed else "unknown"
            problems.append(ArgProblem(kind, argument.name, argument.spelling, start))
            continue
        try:
            if argument.kind == _PART:
                _set_part(parts, (argument.name, *argument.key), argument.text)
            else:
                values[argument.name] = False if argument.negated else _convert(argument.kind, argument.text)
        except ValueError as error:
            problems.append(ArgProblem("value", argument.name, str(error), start))
            continue
        indices[argument.name] = start
    return EngineArgs({**values, **parts}, indices, tuple(problems))


def _take(args: Sequence[str], start: int, vllm: VllmFact) -> tuple[_Argument, int]:
    """Return the argument that begins at ``start``, and the index behind it."""
    spelling, equals, text = args[start].partition("=")
    name, glued, key = _long_flag(spelling, vllm)
    kind, negated = _kind(name, key, vllm)
    name = name.removeprefix("no-") if negated else name
    end = start + 1
    value = text if equals else glued or None
    if value is None and kind not in _WITHOUT_VALUE:
        # One word, except where argparse takes several; words behind an unknown flag belong to it.
        most = start + 2 if kind not in {"list", None} else len(args)
        while end < min(most, len(args)) and not _FLAG.match(args[end]):
            end += 1
        value = " ".join(args[start + 1 : end]) if end > start + 1 else None
    return _Argument(start, spelling, name, kind, value, key, negated), end


def _long_flag(spelling: str, vllm: VllmFact) -> tuple[str, str, tuple[str, ...]]:
    """Return the long flag, a value glued to a short form of one letter, and the key behind dots."""
    head, *key = spelling.lstrip("-").split(".")
    if spelling.startswith("--"):
        return head.replace("_", "-"), "", tuple(key)
    if head in vllm.aliases:
        return vllm.aliases[head], "", tuple(key)
    if head[0] in vllm.aliases:
        return vllm.aliases[head[0]], spelling[2:], ()
    return spelling, "", ()


def _kind(name: str, key: tuple[str, ...], vllm: VllmFact) -> tuple[str | None, bool]:
    """Return the kind of the flag's value, None for a flag that does not exist, and whether it is negated."""
    if name in vllm.flags:
        if not key:
            return vllm.flags[name], False
        return (_PART if vllm.flags[name] == "json" else None), False
    positive = name.removeprefix("no-")
    if positive != name and not key and vllm.flags.get(positive) == "bool":
        return "bool", True
    return None, False


def _set_part(parts: dict[str, object], path: tuple[str, ...], text: str | None) -> None:
    """Put one dotted part in place; a key that ends in ``+`` appends to a list."""
    if text is None:
        raise ValueError("wants a value")
    at = parts
    for name in path[:-1]:
        below = at.setdefault(name, {})
        if not isinstance(below, dict):
            at[name] = below = {}
        at = cast("dict[str, object]", below)
    last = path[-1]
    if last.endswith("+"):
        old = at.get(last[:-1])
        at[last[:-1]] = [*(cast("list[object]", old) if isinstance(old, list) else []), *text.split(",")]
        return
    try:
        at[last] = json.loads(text)
    except (ValueError, RecursionError):
        at[last] = text


def _convert(kind: str, text: str | None) -> object:
    if kind in _WITHOUT_VALUE:
        if text is None:
            return True
        raise ValueError(f"is a switch and takes no value, got {text!r}")
    if text is None:
        if kind == "optional":
            return True
        raise ValueError("wants a value")
    if kind in {"int", "count", "length"}:
        return _integer(kind, text)
    if kind == "float":
        return _float(text)
    if kind == "json" and text.lstrip().startswith("{"):
        return _json(text)
    return text


_HUMAN = re.compile(r"([0-9]{1,15})(\.[0-9]{1,15})?([kKmMgGtT])")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def _integer(kind: str, text: str) -> int | str:
    """Return a whole number; counts and lengths may be ``16k`` (decimal) or ``16K`` (binary)."""
    if kind == "length" and text.strip().lower() in {AUTO, "-1"}:
        return AUTO
    human = _HUMAN.fullmatch(text.strip()) if kind != "int" else None
    if human:
        whole, fraction, suffix = human.groups()
        if suffix.isupper() and fraction:
            raise ValueError(f"wants a whole number before {suffix}, got {text!r}")
        base = 1024 if suffix.isupper() else 1000
        return int(float(whole + (fraction or "")) * base ** _POWERS[suffix.lower()])
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"wants a whole number, got {text!r}") from None


def _float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"wants a number, got {text!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"wants a finite number, got {text!r}")
    return number


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
