"""Where the embedded system keeps what it makes: engines, models, and the state of each environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpd.project import ROOT

HOME_VARIABLE = "DPD_HOME"


@dataclass(frozen=True, slots=True)
class EnvironmentFolder:
    """Name the files of one environment. `desired` is written by deploy alone, `state` by the supervisor."""

    path: Path

    @property
    def desired(self) -> Path:
        """Return the file that says what shall run."""
        return self.path / "desired.json"

    @property
    def state(self) -> Path:
        """Return the file that says what runs."""
        return self.path / "state.json"

    @property
    def lock(self) -> Path:
        """Return the file that keeps two deploys apart."""
        return self.path / "lock"

    def log(self, process: str) -> Path:
        """Return the log of one process, or of the `supervisor`."""
        return self.path / "logs" / f"{process}.log"


@dataclass(frozen=True, slots=True)
class Home:
    """Name the folders below one root."""

    root: Path

    @property
    def engines(self) -> Path:
        """Return the virtual environment of the engines."""
        return self.root / "engines"

    @property
    def models(self) -> Path:
        """Return the folder of generated models."""
        return self.root / "models"

    def environment(self, name: str) -> EnvironmentFolder:
        """Return the files of one environment."""
        return EnvironmentFolder(self.root / "local" / name)


def find_home() -> Home:
    """Return the folder that DPD_HOME names, else `.dpd` in the checkout."""
    named = os.environ.get(HOME_VARIABLE)
    return Home(Path(named).expanduser().absolute() if named else ROOT / ".dpd")
