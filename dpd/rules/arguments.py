"""Where the user wrote an engine argument, so that a finding points at the line."""

from __future__ import annotations

from dpd.spec.engine_deployment import EngineDeployment, EngineRole
from dpd.yaml_file import Path_


def argument_path(deployment: EngineDeployment, role: EngineRole, index: int) -> Path_ | None:
    """Return where the user wrote argument ``index`` of a role; None where the package wrote it."""
    shared_end = len(role.shared_args)
    shared_start = shared_end - len(deployment.model.serving.args)
    if shared_start <= index < shared_end:
        return ("serving", "args", index - shared_start)
    own = () if role.name == "worker" else getattr(deployment.model.dpd, role.name).args
    start = shared_end + len(role.args) - len(own)
    return ("dpd", role.name, "args", index - start) if index >= start else None


def flag_path(deployment: EngineDeployment, role: EngineRole, flag: str, default: Path_) -> Path_:
    """Return where the last value of ``flag`` was written, ``default`` where the package wrote it."""
    index = role.engine.indices.get(flag)
    path = argument_path(deployment, role, index) if index is not None else None
    return path or default


def argument_path_of(deployment: EngineDeployment, role: EngineRole, flag: str) -> Path_ | None:
    """Return where the user wrote ``flag`` for this role alone."""
    index = role.engine.indices.get(flag)
    path = argument_path(deployment, role, index) if index is not None else None
    return path if path and path[0] == "dpd" else None
