"""Where each value of a model comes from: `dpd plan --explain`."""

from __future__ import annotations

from dpd.spec.merge import Merged
from dpd.spec.model import Model


def explain_values(model: Model, merged: Merged) -> list[dict[str, str]]:
    """Return every value of the effective model with the place that set it."""
    rows: list[dict[str, str]] = []
    _explain(model.model_dump(mode="json"), (), merged, rows)
    return rows


def _explain(value: object, path: tuple[str | int, ...], merged: Merged, rows: list[dict[str, str]]) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            _explain(item, (*path, str(key)), merged, rows)  # pyright: ignore[reportUnknownArgumentType]
        return
    origin = merged.origins[path].text() if merged.is_set(path) else "default"
    rows.append({"key": ".".join(map(str, path)), "value": str(value), "origin": origin})  # pyright: ignore[reportUnknownArgumentType]
