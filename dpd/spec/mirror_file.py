"""The file in which `dpd mirror` records its copies: config/mirror/<environment>.yaml."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from dpd.finding import Finding
from dpd.spec.merge import Merged, Origin, merge
from dpd.spec.mirror import Mirror
from dpd.yaml_file import Path_, dotted, read_yaml

_HEAD = "# Written by `dpd mirror --apply`: what a closed network pulls instead. Commit it.\n"


def mirror_path(config_dir: Path, environment: str) -> Path:
    """Return the file of one environment; it need not exist."""
    return config_dir / "mirror" / f"{environment}.yaml"


def lay_mirror(environment: Merged, path: Path) -> tuple[Merged, list[Finding]]:
    """Lay the file's content over ``environment`` as its key `mirror`; without a file, change nothing.

    Every value keeps its line, so that a finding points into the file.
    """
    if not path.exists():
        return environment, []
    file = read_yaml(path)
    prefix: Path_ = ("mirror",)
    origins = {(*prefix, *at): Origin(str(path), line, dotted(at)) for at, line in file.lines.items()}
    return merge(environment, {"mirror": file.data}, origins), list(file.findings)


def write_mirror(path: Path, mirror: Mirror) -> None:
    """Write the file, whole or not at all; equal content gives equal bytes."""
    data = mirror.model_dump(mode="json", exclude_none=True)
    data["images"] = dict(sorted(data["images"].items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}-{os.getpid()}")
    staging.write_text(_HEAD + yaml.safe_dump(data, sort_keys=False, width=1000), encoding="utf-8")
    staging.replace(path)
