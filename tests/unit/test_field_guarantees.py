"""What field reports ask for and no other test holds; each test carries the report's number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd_constructs.base_chart_values import base_chart_values

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements.in"])
def test_p28_every_dependency_is_pinned(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    wanted = [line.split(";")[0].strip() for line in lines if re.match(r"[A-Za-z0-9]", line)]
    assert wanted
    for line in wanted:
        assert re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z0-9,._-]+\])?==[A-Za-z0-9.!+]+", line), line


def test_p25_every_override_names_a_part_of_the_chart(catalog: Catalog, facts: Facts) -> None:
    """A key that is no dependency of the chart changes nothing, and Helm does not say so."""
    environment = catalog.environments["dev"].value
    assert environment is not None
    known = set(facts.charts["hyperpod-base"].parts)
    assert set(base_chart_values(environment, facts)) <= known
