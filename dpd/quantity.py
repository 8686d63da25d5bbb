"""Quantities with their unit in the type: bytes are never a bare number in a configuration file."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

# Binary units only: GB and GiB differ by 7 %, and a PD buffer written in the wrong one is short.
_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
# Far above any memory, and small enough for exact arithmetic.
_LARGEST: Final = 2**20 * TIB
_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|TiB)$"


def parse_bytes(value: object) -> int:
    """Return the number of bytes in a quantity such as ``8GiB``.

    Accepts B, KiB, MiB, GiB and TiB. Raises ValueError on a bare number, on decimal units (GB), on a
    fraction of a byte, and on more than 2**60 bytes.
    """
    if not isinstance(value, str):
        raise ValueError(f"wants a quantity with its unit, such as 8GiB; got the bare value {value!r}")
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
    unit = match.group(2) if match else ""
    if match is None or unit not in _UNITS:
        hint = f" (did you mean {unit[:-1]}iB?)" if unit in {"KB", "MB", "GB", "TB"} else ""
        hint = hint or (f" (did you mean {unit}B?)" if unit in {"Ki", "Mi", "Gi", "Ti"} else "")
        raise ValueError(f"wants a number and one of {', '.join(_UNITS)}; got {value!r}{hint}")
    count = Decimal(match.group(1)) * _UNITS[unit]
    if count != int(count):
        raise ValueError(f"is not a whole number of bytes: {value!r}")
    if count > _LARGEST:
        raise ValueError(f"is more than {format_bytes(_LARGEST)}: {value!r}")
    return int(count)


def format_bytes(count: int) -> str:
    """Return ``count`` bytes in the largest binary unit that loses nothing, such as ``8GiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % _UNITS[unit] == 0:
            return f"{count // _UNITS[unit]}{unit}"
    return f"{count}B"


def format_gib(count: float, digits: int = 1) -> str:
    """Return ``count`` bytes in GiB for people, rounded to ``digits``."""
    return f"{count / GIB:.{digits}f} GiB"


def _readable_default(schema: dict[str, Any]) -> None:
    """Show the default as a file writes it: pydantic puts the bare number into the schema."""
    if isinstance(schema.get("default"), int):
        schema["default"] = format_bytes(schema["default"])


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    PlainSerializer(format_bytes, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["8GiB"]}),
    Field(json_schema_extra=_readable_default),
]
"""A number of bytes, written with its binary unit in YAML."""

Whole = Annotated[int, Field(strict=True)]
"""A whole number; `true`, "8" and 8.0 are none."""


def _number(value: object) -> object:
    """Refuse a switch, which Python counts as a number."""
    if isinstance(value, bool):
        raise ValueError("wants a number, got a switch")
    return value


Real = Annotated[float, BeforeValidator(_number)]
"""A number, as YAML writes it: 0.75, 8 or 70.6e9."""
