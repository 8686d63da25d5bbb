"""Copy images between registries with skopeo or crane, whichever is there."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast


class MirrorFailed(Exception):
    """Say why a copy could not be made; ``str()`` is one line for people."""


def copy_tool() -> str:
    """Return `skopeo` or `crane`; raises MirrorFailed where neither is on the PATH."""
    for name in ("skopeo", "crane"):
        if shutil.which(name):
            return name
    raise MirrorFailed("neither skopeo nor crane is on the PATH; install one of them to copy images")


def copy_image(tool: str, source: str, target: str, credentials: Path) -> None:
    """Copy all platforms of ``source`` with their digests; raises MirrorFailed with the tool's last words.

    ``credentials`` is a folder with a config.json for the target's registry.
    """
    name, _, digest = source.partition("@")
    if digest:
        # Both tools refuse a tag beside a digest; the digest decides.
        repository, slash, last = name.rpartition("/")
        source = f"{repository}{slash}{last.partition(':')[0]}@{digest}"
    authfile = str(credentials / "config.json")
    if tool == "skopeo":
        options = ["--all", "--preserve-digests", "--dest-authfile", authfile]
        command = ["skopeo", "copy", *options, f"docker://{source}", f"docker://{target}"]
    else:
        command = ["crane", "copy", source, target]
    run(command, what=f"copying {source}", env={"DOCKER_CONFIG": str(credentials)} if tool == "crane" else {})


def run(command: list[str], *, what: str, env: dict[str, str], cwd: Path | None = None) -> None:
    """Run a command and let it be quiet; raises MirrorFailed with its last words, stderr before stdout."""
    done = subprocess.run(
        command, env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        # skopeo writes its progress to stdout, which would push the error out.
        words = done.stderr if done.stderr.strip() else done.stdout
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        last = " | ".join(lines[-3:]) or "it wrote nothing"
        raise MirrorFailed(f"{what}: {command[0]} ended with {done.returncode}: {last}")


@contextmanager
def registry_credentials(host: str, password: str) -> Generator[Path, None, None]:
    """Yield a private folder with a config.json that signs in to ``host``, and remove it afterwards.

    It keeps what the user's own file says about other registries, but for credential stores, which
    would win over the entry made here. A password on a command line could be read by everybody.
    """
    home = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    own = home / "config.json"
    config: dict[str, object] = {}
    if own.exists():
        config = json.loads(own.read_text(encoding="utf-8"))
        config.pop("credsStore", None)
    auths = dict(cast("dict[str, object]", config.get("auths", {})))
    auths[host] = {"auth": base64.b64encode(f"AWS:{password}".encode()).decode()}
    config["auths"] = auths
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config), encoding="utf-8")
        yield Path(folder)
