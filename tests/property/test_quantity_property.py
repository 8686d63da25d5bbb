"""Writing a size and reading it back never changes it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dpd.quantity import format_bytes, parse_bytes

bounded = settings(derandomize=True, max_examples=150, deadline=None)


@bounded
@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_survives_writing_and_reading(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count


@bounded
@given(st.integers(min_value=0, max_value=2**20), st.sampled_from(["KiB", "MiB", "GiB"]))
def test_the_next_larger_unit_is_1024_times_as_much(count: int, unit: str) -> None:
    smaller = {"KiB": "B", "MiB": "KiB", "GiB": "MiB"}[unit]
    assert parse_bytes(f"{count}{unit}") == 1024 * parse_bytes(f"{count}{smaller}")


@bounded
@given(
    st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.text()))
)
def test_anything_is_a_size_or_a_value_error(value: object) -> None:
    try:
        count = parse_bytes(value)
    except ValueError:
        return
    assert count >= 0
