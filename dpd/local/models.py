"""The folder of weights that the engines load."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from dpd.local.home import Home
from dpd.spec.local_deployment import LocalDeployment

_SCRIPT = Path(__file__).with_name("tiny_model.py")


class ModelFailed(Exception):
    """Say why a model could not be generated."""


def model_folder(deployment: LocalDeployment, home: Home, requirements: Path) -> Path:
    """Return where the weights are, or will be: the user's folder, or one named after the recipe.

    The recipe is the generator, the shape, and the packages that it runs with: the same recipe gives the same
    bytes, so a folder that is there is right.
    """
    if deployment.model.weights.path is not None:
        return Path(deployment.model.weights.path)
    recipe = hashlib.sha256()
    for part in (_SCRIPT.read_bytes(), _shape(deployment).encode(), requirements.read_bytes()):
        recipe.update(hashlib.sha256(part).digest())
    return home.models / f"{deployment.model.name}-{recipe.hexdigest()[:12]}"


def generate(deployment: LocalDeployment, folder: Path, home: Home) -> None:
    """Write the generated model, whole or not at all; raises ModelFailed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        done = subprocess.run(
            (str(home.engines / "bin" / "python"), "-I", str(_SCRIPT), _shape(deployment), str(scratch)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ModelFailed(done.stderr.strip().rpartition("\n")[2])
        scratch.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _shape(deployment: LocalDeployment) -> str:
    architecture = deployment.model.architecture
    return json.dumps(
        {
            "layers": architecture.layers,
            "hidden_size": architecture.hidden_size,
            "attention_heads": architecture.attention_heads,
            "kv_heads": architecture.kv_heads,
            "head_dim": architecture.head_dim,
            "dtype": architecture.dtype,
            "max_model_len": deployment.max_model_len,
        }
    )
