"""The base of every fact: no number in the product is without an origin."""

from __future__ import annotations

from datetime import date

from dpd.closed_model import ClosedModel


class Fact(ClosedModel):
    """Carry the two things that every row must have."""

    source: str
    """Page, package or report that the row was read from."""
    as_of: date
    """Day on which it was read."""
    confirmed: bool = True
    """False where no primary source exists, or sources disagree."""
    note: str = ""
