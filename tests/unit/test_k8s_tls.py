"""The certificate and the record of an endpoint in its manifest."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.guard import Endpoint
from k8s.inference_endpoint_config import CustomCertificateConfig, TlsConfig
from k8s.render import Bindings, endpoint_manifest

ARN = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"
ZONE = "Z0123456789ABC"


def spec(catalog: Catalog, facts: Facts, endpoint: Endpoint) -> dict[str, Any]:
    environment, model = catalog.environments["dev"].value, catalog.models["llama-3.3-70b"].value
    assert environment is not None
    assert model is not None
    deployment = build_deployment(environment.model_copy(update={"endpoint": endpoint}), model, facts)
    manifest: Any = endpoint_manifest(deployment, Bindings("weights", "hyperpod-tls-x"))
    return manifest["spec"]


def test_by_default_the_operator_makes_the_certificate(catalog: Catalog, facts: Facts) -> None:
    found = spec(catalog, facts, Endpoint())
    assert found["tlsConfig"] == {"tlsCertificateOutputS3Uri": "s3://hyperpod-tls-x/certificates"}
    assert "dnsConfig" not in found


def test_a_certificate_of_ones_own_replaces_the_operator_s(catalog: Catalog, facts: Facts) -> None:
    found = spec(catalog, facts, Endpoint(certificate_arn=ARN, domain_name="llm.example.com"))
    assert found["tlsConfig"] == {"customCertificateConfig": {"acmArn": ARN, "domainName": "llm.example.com"}}
    assert "dnsConfig" not in found


def test_a_zone_adds_the_record(catalog: Catalog, facts: Facts) -> None:
    endpoint = Endpoint(certificate_arn=ARN, domain_name="llm.example.com", hosted_zone_id=ZONE)
    assert spec(catalog, facts, endpoint)["dnsConfig"] == {"hostedZoneId": ZONE}


def test_a_record_without_a_certificate_is_refused(catalog: Catalog, facts: Facts) -> None:
    with pytest.raises(ValidationError, match=r"dnsConfig needs tlsConfig\.customCertificateConfig"):
        spec(catalog, facts, Endpoint(hosted_zone_id=ZONE))


@pytest.mark.parametrize("name", ["*.example.com", "LLM.example.com", "-a.example.com", ""])
def test_the_manifest_takes_one_name_in_lower_case(name: str) -> None:
    with pytest.raises(ValidationError, match=r"domain_name|domainName"):
        TlsConfig(custom_certificate_config=CustomCertificateConfig(acm_arn=ARN, domain_name=name))
