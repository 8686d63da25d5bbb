"""TLS: the certificate and the name of an environment's endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ARN = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"
WHOLE = {"endpoint.certificate_arn": ARN, "endpoint.domain_name": "llm.example.com"}
NAME = "endpoint.domain_name"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "TLS001 certificate without a name": (
        "TLS001",
        {"dev": {"endpoint.certificate_arn": ARN}},
        NAME,
        ["endpoint.certificate_arn need endpoint.domain_name"],
        {"dev": WHOLE},
    ),
    "TLS001 zone and name without a certificate": (
        "TLS001",
        {"dev": {NAME: "llm.example.com", "endpoint.hosted_zone_id": "Z0123456789ABC"}},
        "endpoint.certificate_arn",
        ["endpoint.domain_name and endpoint.hosted_zone_id need"],
        {"dev": {**WHOLE, "endpoint.hosted_zone_id": "Z0123456789ABC"}},
    ),
    "TLS002 wildcard": (
        "TLS002",
        {"dev": {**WHOLE, NAME: "*.example.com"}},
        NAME,
        ["`*.example.com`", "without a wildcard"],
        {"dev": WHOLE},
    ),
    "TLS002 upper case": (
        "TLS002",
        {"dev": {**WHOLE, NAME: "LLM.example.com"}},
        NAME,
        ["`LLM.example.com`", "lower case"],
        {"dev": WHOLE},
    ),
    "TLS002 longer than DNS allows": (
        "TLS002",
        {"dev": {**WHOLE, NAME: ".".join(["a" * 60] * 5)}},
        NAME,
        ["one specific name"],
        {"dev": WHOLE},
    ),
    "TLS003 other region": (
        "TLS003",
        {"dev": {**WHOLE, "endpoint.certificate_arn": ARN.replace("us-west-2", "eu-west-1")}},
        "endpoint.certificate_arn",
        ["region is eu-west-1", "us-west-2"],
        {"dev": WHOLE},
    ),
    "TLS003 other account": (
        "TLS003",
        {"dev": {**WHOLE, "account": "444455556666"}},
        "endpoint.certificate_arn",
        ["account is 111122223333", "444455556666"],
        {"dev": {**WHOLE, "account": "111122223333"}},
    ),
}


@pytest.mark.parametrize(("id", "bad", "path", "says", "good"), CASES.values(), ids=list(CASES))
def test_rule(
    one_rule: Callable[..., None],
    id: str,
    bad: dict[str, Any],
    path: str,
    says: list[str],
    good: dict[str, Any],
) -> None:
    one_rule(id, bad, path, says, good)


def test_one_name_cannot_stand_for_two_models(check: Callable[..., Any]) -> None:
    findings = check(dev={**WHOLE, "models": ["llama-3.3-70b", "qwen3-32b"]})
    found = [finding for finding in findings if finding.id == "TLS004"]
    assert [finding.path for finding in found] == ["endpoint.domain_name"]
    assert "2 models would answer to llm.example.com" in found[0].text()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("certificate_arn", "arn:aws:iam::111122223333:server-certificate/old"),
        ("hosted_zone_id", "example.com"),
        ("hosted_zone", "Z0123456789ABC"),
    ],
)
def test_a_key_of_another_kind_is_refused_by_the_schema(
    check: Callable[..., Any], key: str, value: str
) -> None:
    findings = check(dev={f"endpoint.{key}": value})
    assert {finding.id for finding in findings} <= {"CFG001", "CFG003"}
    assert findings
