"""Turn --env and --model into what they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpd.spec.catalog import Catalog
from dpd.spec.environment import Environment


class UnknownName(Exception):
    """Say that the command line names nothing known; ``str()`` lists what is."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Hold the chosen environments and, where --model was given, the chosen models."""

    environments: tuple[str, ...]
    models: tuple[str, ...] | None

    def models_of(self, environment: Environment) -> list[str]:
        """Return the models to treat in one environment: those chosen, else all that it lists."""
        return list(self.models if self.models is not None else environment.models)


def select(catalog: Catalog, environments: Sequence[str], models: Sequence[str]) -> Selection:
    """Check the names; raises UnknownName with the known ones and the nearest."""
    for name in environments:
        _known("environment", name, catalog.environments)
    for name in models:
        _known("model", name, catalog.models)
    chosen = tuple(dict.fromkeys(environments)) or tuple(catalog.environments)
    return Selection(chosen, tuple(dict.fromkeys(models)) or None)


def _known(kind: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ";"
        raise UnknownName(f"unknown {kind} `{name}`{hint} known: {', '.join(names) or 'none'}")
