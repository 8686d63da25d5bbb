"""NET: what a closed network must have copies of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.finding import Finding, Severity

Check = Callable[..., list[Finding]]

DIGEST = f"sha256:{'ab' * 32}"
SWITCHES = {"enableShield": False, "enableWaf": False, "enableWafv2": False}
CLOSED: dict[str, Any] = {"network.closed": True, "operator.configuration": {"alb": SWITCHES}}


def copy_of(reference: str) -> dict[str, str]:
    path = reference.partition("/")[2]
    return {"target": f"111122223333.dkr.ecr.us-west-2.amazonaws.com/dpd/{path}", "digest": DIGEST}


@pytest.fixture
def mirror(facts: Facts) -> dict[str, Any]:
    """Return what `dpd mirror` would have recorded for dev."""
    sources = [row.reference for row in facts.chart_images.values()]
    sources.append(facts.images["hyperpod-dlc"].reference)
    return {
        "images": {source: copy_of(source) for source in sources},
        "chart": {
            "commit": facts.charts["hyperpod-base"].commit,
            "uri": "s3://dpd-dev-mirror-111122223333-us-west-2/charts/067d.tar",
            "sha256": "cd" * 32,
        },
    }


def ids(findings: list[Finding]) -> list[str]:
    return sorted(finding.id for finding in findings)


def test_a_closed_network_needs_every_copy(check: Check, facts: Facts) -> None:
    findings = check(dev=CLOSED)
    assert ids(findings) == ["NET004", "NET004", "NET007"]
    assert {finding.severity for finding in findings} == {Severity.ERROR}
    chart, model = (finding for finding in findings if finding.id == "NET004")
    assert chart.got == [row.reference for row in facts.chart_images.values()]
    assert chart.path == "network.closed"
    assert model.path == "serving.image"
    assert "run `dpd mirror --env dev --apply`" in model.text()


def test_an_open_network_needs_none(check: Check) -> None:
    assert check(dev={"network.closed": False}) == []


def test_copies_satisfy_it(check: Check, mirror: dict[str, Any]) -> None:
    assert check(dev={**CLOSED, "mirror": mirror}) == []


def test_one_missing_copy_of_the_chart_is_named_alone(check: Check, mirror: dict[str, Any]) -> None:
    missing = "nvcr.io/nvidia/k8s-device-plugin:v0.16.1"
    del mirror["images"][missing]
    (finding,) = check(dev={**CLOSED, "mirror": mirror})
    assert (finding.id, finding.got) == ("NET004", [missing])


@pytest.mark.parametrize(
    ("image", "reachable"),
    [
        (f"999988887777.dkr.ecr.us-west-2.amazonaws.com/ours/vllm@{DIGEST}", True),
        (f"999988887777.dkr.ecr.us-east-1.amazonaws.com/ours/vllm@{DIGEST}", False),
        (f"evil.example/111122223333.dkr.ecr.us-west-2.amazonaws.com/vllm@{DIGEST}", False),
    ],
    ids=["private registry of the region", "of another region", "a public one that looks like it"],
)
def test_a_registry_counts_where_its_endpoint_reaches(
    check: Check, mirror: dict[str, Any], image: str, *, reachable: bool
) -> None:
    findings = check(dev={**CLOSED, "mirror": mirror}, llama={"serving.image": image})
    assert ("NET004" in ids(findings)) is not reachable


def test_a_copied_chart_of_another_commit_is_refused(check: Check, mirror: dict[str, Any]) -> None:
    (finding,) = check(dev={**CLOSED, "mirror": mirror, "hyperpod.chart_commit": "1" * 40})
    assert (finding.id, finding.path, finding.allowed) == ("NET007", "mirror.chart.commit", "1" * 40)


def test_a_copied_chart_has_a_digest_already(check: Check, mirror: dict[str, Any], facts: Facts) -> None:
    mirror["images"] |= {row.reference: copy_of(row.reference) for row in facts.images.values()}
    findings = check(prod={**CLOSED, "mirror": mirror})
    # Mirrored for another region, the images are out of reach; their digests and the chart's stand.
    assert not {"CLU002", "IMG003"} & set(ids(findings))


def test_endpoints_are_chosen_only_where_they_are_made(check: Check, mirror: dict[str, Any]) -> None:
    closed = {**CLOSED, "mirror": mirror}
    assert ids(check(dev={"network.further_endpoints": ["bedrock-runtime"]})) == ["NET009"]
    assert check(dev={**closed, "network.further_endpoints": ["bedrock-runtime"]}) == []
    assert check(dev={**closed, "network.omitted_endpoints": ["acm"]}) == []
    (finding,) = check(dev={**closed, "network.omitted_endpoints": ["acm", "amc"]})
    assert (finding.id, finding.path) == ("NET009", "network.omitted_endpoints[1]")


def test_the_schema_refuses_a_copy_without_a_digest(check: Check) -> None:
    (finding,) = check(dev={"mirror": {"images": {"a/b:1": {"target": "r/dpd/a/b:1"}}}})
    assert finding.id == "CFG002"
    assert finding.path.endswith("digest")


def test_weights_on_the_internet_are_out_of_reach(check: Check, mirror: dict[str, Any]) -> None:
    hub = {"weights": {"source": "huggingface"}}
    (finding,) = check(dev={**CLOSED, "mirror": mirror}, llama=hub)
    assert (finding.id, finding.path) == ("NET010", "weights.source")
    assert check(llama=hub) == []


def test_a_record_needs_a_way_to_route_53(check: Check, mirror: dict[str, Any]) -> None:
    record = {
        "hosted_zone_id": "Z0123456789ABC",
        "domain_name": "llm.example.com",
        "certificate_arn": f"arn:aws:acm:us-west-2:111122223333:certificate/0123abcd{'-0000' * 3}-{'0' * 12}",
    }
    (finding,) = check(dev={**CLOSED, "mirror": mirror, "endpoint": record})
    assert (finding.id, finding.path) == ("NET011", "endpoint.hosted_zone_id")
    assert check(dev={"endpoint": record}) == []


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("value", [True, None, ...], ids=["on", "null", "absent"])
def test_each_service_without_a_door_is_switched_off(
    check: Check, mirror: dict[str, Any], switch: str, value: object
) -> None:
    alb = {name: at for name, at in {**SWITCHES, switch: value}.items() if at is not ...}
    (finding,) = check(dev={**CLOSED, "mirror": mirror, "operator.configuration": {"alb": alb}})
    assert (finding.id, finding.severity) == ("NET013", Severity.WARNING)
    assert finding.path == f"operator.configuration.alb.{switch}"
    assert f"alb: {{{switch}: false}}" in finding.text()


def test_a_service_with_an_endpoint_may_stay_on(check: Check, mirror: dict[str, Any]) -> None:
    reach = {
        "network.further_endpoints": ["wafv2"],
        "operator.configuration": {"alb": {**SWITCHES, "enableWafv2": True}},
    }
    assert check(dev={**CLOSED, "mirror": mirror, **reach}) == []


def test_a_controller_of_somebody_else_is_theirs_to_configure(check: Check, mirror: dict[str, Any]) -> None:
    without = {"operator.configuration": {"alb": {"enabled": False}}}
    assert check(dev={**CLOSED, "mirror": mirror, **without}) == []


def test_an_open_network_reaches_every_service(check: Check) -> None:
    assert check(dev={"operator.configuration": {"alb": {"enableShield": True}}}) == []
