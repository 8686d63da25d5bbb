"""Compare version numbers as EKS add-ons write them."""

from __future__ import annotations

import re

PINNED_ADDON = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+")
"""A full add-on version, such as v1.4.0-eksbuild.1."""


def ordered(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare: v1.4.0-eksbuild.1 gives (1, 4, 0, 1)."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))
