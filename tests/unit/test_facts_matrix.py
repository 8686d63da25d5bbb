"""The tables behind the compatibility matrix and the rules on settings and ranges."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

from dpd.facts import Facts
from dpd.versions import ordered


def test_settings_of_lmcache_are_judged_or_renamed(facts: Facts) -> None:
    for key, row in facts.lmcache_settings.items():
        assert re.fullmatch(r"[a-z0-9_]+", key)
        assert not row.instead.endswith("."), key
        assert not row.why.endswith("."), key
        if not row.read:
            assert row.allowed == (), key
        elif row.kind == "bool":
            assert row.allowed in {("true",), ("false",)}, key


def test_ranges_of_a_vpc_refuse_ranges(facts: Facts) -> None:
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "other"} <= set(facts.vpc_ranges)
    for key, row in facts.vpc_ranges.items():
        for name in (*row.refuses, *([] if key == "other" else [key])):
            assert str(IPv4Network(name)) == name
    # What one private block refuses, refuses it in turn.
    for key in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"):
        for name in set(facts.vpc_ranges[key].refuses) & set(facts.vpc_ranges):
            assert key in facts.vpc_ranges[name].refuses, f"{name} {key}"


def test_images_hold_a_nixl_that_the_table_knows(facts: Facts) -> None:
    for name, image in facts.images.items():
        assert image.nixl_version is None or image.nixl_version in facts.nixl, name


def test_the_plugin_of_the_chart_counts_the_devices_of_every_dpd_type(facts: Facts) -> None:
    for name in facts.dpd_instance_types():
        least = facts.instances[name].minimum_efa_plugin
        for chart in facts.charts.values():
            assert least is None or ordered(chart.efa_plugin_version) >= ordered(least), name
