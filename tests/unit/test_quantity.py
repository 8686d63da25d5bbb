"""Sizes carry their unit, and the wrong unit is refused with the right one named."""

from __future__ import annotations

import pytest

from dpd.quantity import GIB, format_bytes, format_gib, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8GiB", 8_589_934_592),
        ("0B", 0),
        ("1KiB", 1024),
        ("1.5MiB", 1_572_864),
        (" 16 GiB ", 17_179_869_184),
        ("1TiB", 1_099_511_627_776),
    ],
)
def test_binary_units(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("8GB", "did you mean GiB?"),
        ("8TB", "did you mean TiB?"),
        ("8Gi", "did you mean GiB?"),
        ("8", "B, KiB, MiB, GiB, TiB"),
        ("8gib", "B, KiB, MiB, GiB, TiB"),
        ("GiB", "B, KiB, MiB, GiB, TiB"),
        ("-1GiB", "B, KiB, MiB, GiB, TiB"),
        ("", "B, KiB, MiB, GiB, TiB"),
        ("1e3GiB", "B, KiB, MiB, GiB, TiB"),
        ("0.3B", "whole number of bytes"),
        ("9" * 400 + "GiB", "more than"),
        ("2000000TiB", "more than"),
        (8, "8GiB; got the bare value 8"),
        (8.5, "bare value 8.5"),
        (True, "bare value True"),
        (None, "bare value None"),
    ],
)
def test_everything_else_is_refused(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_bytes(value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (8 * GIB, "8GiB"),
        (10_737_418_240, "10GiB"),
        (1536, "1536B"),
        (2048, "2KiB"),
        (1024**4, "1TiB"),
        (0, "0B"),
    ],
)
def test_format_loses_nothing(count: int, text: str) -> None:
    assert format_bytes(count) == text
    assert parse_bytes(text) == count


def test_people_read_gib_with_one_digit() -> None:
    assert format_gib(1.25 * GIB) == "1.2 GiB"
    assert format_gib(6 * GIB, 0) == "6 GiB"
