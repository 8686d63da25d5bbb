"""The tables of what nodes reach, pull and carry."""

from __future__ import annotations

import re

from dpd.facts import Facts


def test_a_service_has_the_form_of_its_name_after_the_region(facts: Facts) -> None:
    for name in facts.endpoints:
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z]+)?", name), name
    assert "s3" not in facts.endpoints, "a gateway endpoint has no interface"


def test_each_endpoint_says_who_needs_it(facts: Facts) -> None:
    for name, row in facts.endpoints.items():
        assert row.why.endswith("."), name
    assert {name for name, row in facts.endpoints.items() if row.policy == "web_identity"} == {"sts"}


def test_endpoints_that_every_private_cluster_needs_are_confirmed(facts: Facts) -> None:
    for name in ("ec2", "ecr.api", "ecr.dkr", "sts", "eks-auth", "elasticloadbalancing"):
        assert facts.endpoints[name].confirmed, name
        assert facts.endpoints[name].when == "always", name


def test_buckets_of_aws_are_named_for_a_region_and_only_read_or_answered(facts: Facts) -> None:
    for name, row in facts.service_buckets.items():
        assert re.search(r"\{region(name)?\}", row.bucket), name
        assert set(row.actions) <= {"s3:GetObject", "s3:PutObject"}, name
        assert "*" not in row.bucket, name
    writable = {name for name, row in facts.service_buckets.items() if "s3:PutObject" in row.actions}
    assert writable == {"cloudformation-custom-resources"}


def test_chart_images_have_a_tag_that_stays_and_two_keys(facts: Facts) -> None:
    for name, row in facts.chart_images.items():
        assert re.fullmatch(r"[a-z0-9.-]+/[a-z0-9/-]+:v[0-9.]+", row.reference), name
        subchart = row.repository_key.partition(".")[0]
        assert row.repository_key == f"{subchart}.image.repository"
        assert row.tag_key == f"{subchart}.image.tag"


def test_layers_reach_as_far_as_the_instance_types_say(facts: Facts) -> None:
    layers = {row.layer for row in facts.node_labels.values() if row.layer}
    assert layers == set(range(1, max(row.network_label_layers for row in facts.instances.values()) + 1))
    for name, row in facts.node_labels.items():
        assert row.layer is None or name.endswith(f"-layer-{row.layer}")
