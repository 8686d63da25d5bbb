"""Where weights on this machine's disk are, whatever folder a command runs in."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from dpd.spec.merge import Merged, merge
from dpd.yaml_file import Path_

_PATH: Path_ = ("weights", "path")


def anchor_weights(merged: Merged) -> Merged:
    """Make `weights.path` absolute: it is relative to the file that names it; `~` is the user's home."""
    weights = merged.data.get("weights")
    written = cast("dict[str, object]", weights).get("path") if isinstance(weights, dict) else None
    if not isinstance(written, str) or not written:
        return merged
    origin = merged.origin(_PATH)
    path = (Path(origin.file).parent / Path(written).expanduser()).absolute()
    return merge(merged, {"weights": {"path": str(path)}}, {_PATH: origin})
