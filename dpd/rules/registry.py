"""The catalogue: every rule with what a person needs to understand and mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from dpd.facts import Facts
from dpd.finding import Severity
from dpd.spec.deployment import Deployment
from dpd.spec.engine_deployment import EngineDeployment
from dpd.spec.environment import Environment
from dpd.yaml_file import Path_

Owner = Literal["environment", "model"]


@dataclass(frozen=True, slots=True)
class Hit:
    """Report that a rule holds: where, what, the value, what is allowed and how to mend it."""

    path: Path_
    message: str
    got: object = None
    allowed: object = None
    fix: str = ""
    owner: Owner = "model"


@dataclass(frozen=True, slots=True)
class EnvironmentContext:
    """Give a rule one environment on HyperPod."""

    environment: Environment
    facts: Facts


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Give a rule one model as an environment of any back-end runs it."""

    deployment: EngineDeployment
    facts: Facts


@dataclass(frozen=True, slots=True)
class ModelContext(EngineContext):
    """Give a rule one model as an environment on HyperPod runs it."""

    deployment: Deployment


EnvironmentCheck = Callable[[EnvironmentContext], Iterable[Hit]]
EngineCheck = Callable[[EngineContext], Iterable[Hit]]
ModelCheck = Callable[[ModelContext], Iterable[Hit]]


@dataclass(frozen=True, slots=True)
class Doc:
    """Explain a rule: title, symptom without it, cause, fix, source, a bad and a good snippet."""

    title: str
    symptom: str
    cause: str
    fix: str
    source: str
    bad: str
    good: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Join an id, its documentation, and the function that finds it.

    Rules of the loader (CFG) have no function: reading the files finds them.
    """

    id: str
    severity: Severity
    doc: Doc
    environment_check: EnvironmentCheck | None = None
    model_check: ModelCheck | None = None
    engine_check: EngineCheck | None = None


def accept_hint(id: str) -> str:
    """Say how an environment lives with a combination that the facts do not know."""
    return f"or state why it works: accept: {{{id}: {{severity: info, reason: ...}}}}"


_rules: dict[str, Rule] = {}


def rules() -> dict[str, Rule]:
    """Return every registered rule by id, in order of id."""
    return dict(sorted(_rules.items()))


def loader_rule(id: str, severity: Severity, doc: Doc) -> None:
    """Register a rule that reading the files applies."""
    _add(Rule(id, severity, doc))


def environment_rule(id: str, severity: Severity, doc: Doc) -> Callable[[EnvironmentCheck], EnvironmentCheck]:
    """Register the decorated function as a rule about one environment on HyperPod."""

    def register(check: EnvironmentCheck) -> EnvironmentCheck:
        _add(Rule(id, severity, doc, environment_check=check))
        return check

    return register


def model_rule(id: str, severity: Severity, doc: Doc) -> Callable[[ModelCheck], ModelCheck]:
    """Register the decorated function as a rule about one model in one environment on HyperPod."""

    def register(check: ModelCheck) -> ModelCheck:
        _add(Rule(id, severity, doc, model_check=check))
        return check

    return register


def engine_rule(id: str, severity: Severity, doc: Doc) -> Callable[[EngineCheck], EngineCheck]:
    """Register the decorated function as a rule about one model on any back-end."""

    def register(check: EngineCheck) -> EngineCheck:
        _add(Rule(id, severity, doc, engine_check=check))
        return check

    return register


def in_models_too(id: str) -> Callable[[ModelCheck], ModelCheck]:
    """Register the decorated function as what an environment's rule looks for in each model."""

    def register(check: ModelCheck) -> ModelCheck:
        _rules[id] = replace(_rules[id], model_check=check)
        return check

    return register


def _add(rule: Rule) -> None:
    if rule.id in _rules:
        raise ValueError(f"rule {rule.id} is registered twice")
    _rules[rule.id] = rule
