"""Find the checkout, which holds what a wheel cannot: stacks, constructs and manifests."""

from __future__ import annotations

import sys
from pathlib import Path

from dpd.nodejs import use_bundled_node

ROOT = Path(__file__).resolve().parent.parent


class NoCheckout(Exception):
    """Say that a command needs the repository, and where it looked."""


def use_checkout() -> Path:
    """Make stacks, constructs and manifests importable, choose Node.js, and return the root.

    Raises NoCheckout where only the wheel is installed.
    """
    if not (ROOT / "app.py").exists():
        raise NoCheckout(
            f"this command needs a checkout of hyperpod-dpd, and {ROOT} is none; clone the repository and "
            "run `make up` there"
        )
    for folder in (ROOT, ROOT / "constructs"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    use_bundled_node()
    return ROOT
