"""Compare version numbers as EKS add-ons write them."""

from __future__ import annotations

import re

# Nine digits are more than any version has, and few enough to compare as numbers.
PINNED_ADDON = re.compile(r"v[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}-eksbuild\.[0-9]{1,9}")
"""A full add-on version, such as v1.4.0-eksbuild.1."""


def release(version: str) -> tuple[int, int, int] | None:
    """Return major, minor and patch of a version that names at least two; None of anything else."""
    match = re.match(r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?![0-9])", version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def ordered(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare: v1.4.0-eksbuild.1 gives (1, 4, 0, 1)."""
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version))
