"""Turn --env and --model into what they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpd.spec.base_environment import BaseEnvironment
from dpd.spec.catalog import Catalog


class UnknownName(Exception):
    """Say that the command line names nothing known; ``str()`` lists what is."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Hold the chosen environments and, where --model was given, the chosen models."""

    environments: tuple[str, ...]
    models: tuple[str, ...] | None

    def models_of(self, environment: BaseEnvironment) -> list[str]:
        """Return the models to treat in one environment: those chosen, else all that it lists."""
        return list(self.models if self.models is not None else environment.models)


def select(catalog: Catalog, environments: Sequence[str], models: Sequence[str]) -> Selection:
    """Check the names; raises UnknownName with the known ones and the nearest."""
    for name in environments:
        _known("environment", name, catalog.environments)
    for name in models:
        _known("model", name, catalog.models)
    chosen = tuple(dict.fromkeys(environments)) or _all_environments(catalog, models)
    return Selection(chosen, tuple(dict.fromkeys(models)) or None)


def _all_environments(catalog: Catalog, models: Sequence[str]) -> tuple[str, ...]:
    """Return what --env means where it is not given; named models keep to the back-ends that list them."""
    values = [loaded.value for loaded in catalog.environments.values() if loaded.value is not None]
    backends = {value.backend for value in values if set(models) & set(value.models)} or {"hyperpod"}
    left_out = {value.name for value in values if models and value.backend not in backends}
    return tuple(name for name in catalog.environments if name not in left_out)


def _known(kind: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ";"
        raise UnknownName(f"unknown {kind} `{name}`{hint} known: {', '.join(names) or 'none'}")
