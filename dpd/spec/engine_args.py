"""Read vLLM arguments the way vLLM reads them, whatever their spelling.

vLLM accepts ``--flag value``, ``--flag=value``, short forms such as ``-tp 4``, underscores for
dashes, ``--no-flag`` for switches, and ``--flag.key value`` for parts of a JSON value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dpd.facts import VllmFact

Problem = Literal["unknown", "removed", "value"]


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
        """Return the value of an integer flag, None where it is absent or unreadable."""
        value = self.values.get(flag)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_engine_args(args: Sequence[str], vllm: VllmFact) -> EngineArgs:
    """Parse ``args`` against one vLLM release's table; problems are collected, never raised."""
    values: dict[str, object] = {}
    indices: dict[str, int] = {}
    problems: list[ArgProblem] = []
    for index, spelling, text in _pairs(args):
        name, negated, kind = _resolve(spelling, vllm)
        if kind is None:
            problem: Problem = "removed" if name in vllm.removed else "unknown"
            problems.append(ArgProblem(problem, name, spelling, index))
            continue
        try:
            values[name] = False if negated else _convert(kind, text)
        except ValueError as error:
            problems.append(ArgProblem("value", name, str(error), index))
            continue
        indices[name] = index
    return EngineArgs(values, indices, tuple(problems))


def _pairs(args: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """Yield index, flag and value; a value is what follows ``=`` or the next words without a dash."""
    index = 0
    while index < len(args):
        word, start = args[index], index
        index += 1
        if not re.match(r"^--?[A-Za-z]", word):
            continue
        flag, equals, text = word.partition("=")
        if equals:
            yield start, flag, text
            continue
        words: list[str] = []
        while index < len(args) and not re.match(r"^--?[A-Za-z]", args[index]):
            words.append(args[index])
            index += 1
        yield start, flag, " ".join(words) if words else None


def _resolve(spelling: str, vllm: VllmFact) -> tuple[str, bool, str | None]:
    """Return the long flag, whether it is negated, and the kind of its value (None if unknown)."""
    name = spelling.lstrip("-").partition(".")[0]
    name = vllm.aliases.get(name, name) if not spelling.startswith("--") else name
    name = name.replace("_", "-")
    name = vllm.aliases.get(name, name)
    if name in vllm.flags:
        return name, False, "part" if "." in spelling else vllm.flags[name]
    positive = name.removeprefix("no-")
    if positive != name and vllm.flags.get(positive) == "bool":
        return positive, True, "bool"
    return name, False, None


_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no"}
_HUMAN = re.compile(r"^([0-9]+(?:\.[0-9]+)?)([kKmMgG])$")
_HUMAN_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _convert(kind: str, text: str | None) -> object:
    if kind == "bool":
        return _boolean(text)
    if text is None:
        raise ValueError("wants a value")
    if kind == "int":
        return _integer(text)
    if kind == "float":
        return float(text)
    if kind == "json" and text.lstrip().startswith("{"):
        return json.loads(text)
    return text


def _boolean(text: str | None) -> bool:
    if text is None or text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"is a switch and takes no value, got {text!r}")


def _integer(text: str) -> int:
    """Return an integer; vLLM also takes ``16k`` (decimal) and ``16K`` (binary) for lengths."""
    human = _HUMAN.match(text)
    if human:
        return int(float(human.group(1)) * _HUMAN_FACTORS[human.group(2)])
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"wants a whole number, got {text!r}") from None
