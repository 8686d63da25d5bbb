"""Merge configuration layers and remember where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from dpd.yaml_file import Path_, dotted


@dataclass(frozen=True, slots=True)
class Origin:
    """Point at the place that set a value."""

    file: str
    line: int | None
    path: str

    def text(self) -> str:
        """Return the place as a person would look it up."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Merged:
    """Hold merged data and the origin of each path in it."""

    data: dict[str, object] = field(default_factory=dict[str, object])
    origins: dict[Path_, Origin] = field(default_factory=dict[Path_, Origin])
    fallback: Origin = Origin("", None, "")

    def origin(self, path: Path_) -> Origin:
        """Return the origin of ``path`` or of its nearest parent, with the full dotted path."""
        known = path
        while known and known not in self.origins:
            known = known[:-1]
        base = self.origins.get(known, self.fallback)
        rest = dotted(path[len(known) :])
        joined = (
            f"{base.path}.{rest}" if base.path and rest and not rest.startswith("[") else base.path + rest
        )
        return Origin(base.file, base.line, joined)

    def is_set(self, path: Path_) -> bool:
        """Tell whether a file or the command line set ``path``; otherwise it is a default."""
        return path in self.origins


def merge(base: Merged, layer: Mapping[str, object], origins: Mapping[Path_, Origin]) -> Merged:
    """Lay ``layer`` over ``base``: mappings merge key by key, everything else replaces."""
    merged_origins = dict(base.origins)
    data = _overlay(base.data, layer, (), merged_origins, origins)
    return Merged(data, merged_origins, base.fallback)


def _overlay(
    below: Mapping[str, object],
    above: Mapping[str, object],
    path: Path_,
    merged: dict[Path_, Origin],
    origins: Mapping[Path_, Origin],
) -> dict[str, object]:
    result = dict(below)
    for key, value in above.items():
        here = (*path, key)
        old = result.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            result[key] = _overlay(
                cast("dict[str, object]", old), cast("dict[str, object]", value), here, merged, origins
            )
            continue
        for known in [known for known in merged if known[: len(here)] == here]:
            del merged[known]
        merged.update({known: at for known, at in origins.items() if known[: len(here)] == here})
        result[key] = value
    return result
