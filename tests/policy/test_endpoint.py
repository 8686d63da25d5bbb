"""What a certificate and a name of one's own add to the operator's role, and to nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpd.iam_reference import environment_roles
from dpd.iam_roles import Role
from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog
from dpd.spec.guard import Endpoint

ARN = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"
ZONE = "Z0123456789ABC"
ADDED = ("acm:GetCertificate", "route53:")


def roles_with(catalog: Catalog, folder: Path, endpoint: Endpoint) -> dict[str, Role]:
    use_bundled_node()
    from stacks.environment import build_environment, new_app

    dev = catalog.environments["dev"].value
    assert dev is not None
    assert catalog.facts is not None
    app = new_app(folder, builtin_cloud_formation_validation=False)
    build_environment(app, dev.model_copy(update={"endpoint": endpoint}), [], catalog.facts)
    return {role.path: role for role in environment_roles(app, "dev")}


def added(role: Role) -> dict[tuple[str, ...], tuple[tuple[str, ...], Any]]:
    return {
        statement.actions: (statement.resources, statement.condition)
        for statement in role.statements
        if any(action.startswith(ADDED) for action in statement.actions)
    }


@pytest.fixture(scope="module")
def whole(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Role]:
    endpoint = Endpoint(certificate_arn=ARN, domain_name="llm.example.com", hosted_zone_id=ZONE)
    return roles_with(catalog, tmp_path_factory.mktemp("cdk.out"), endpoint)


OPERATOR = "operator/Operator/ExecutionRole/Role/Resource"


def test_operator_may_read_the_one_certificate_and_write_the_one_record(whole: dict[str, Role]) -> None:
    zone = (f"arn:aws:route53:::hostedzone/{ZONE}",)
    name = {
        "ForAllValues:StringEquals": {
            "route53:ChangeResourceRecordSetsNormalizedRecordNames": ["llm.example.com"]
        }
    }
    assert added(whole[OPERATOR]) == {
        ("acm:DescribeCertificate", "acm:GetCertificate"): ((ARN,), {}),
        ("route53:ChangeResourceRecordSets",): (zone, name),
        ("route53:GetHostedZone", "route53:ListResourceRecordSets"): (zone, {}),
    }


def test_nobody_else_may(whole: dict[str, Role]) -> None:
    assert {path for path, role in whole.items() if added(role)} == {OPERATOR}


def test_a_certificate_alone_adds_no_right_on_names(catalog: Catalog, tmp_path: Path) -> None:
    endpoint = Endpoint(certificate_arn=ARN, domain_name="llm.example.com")
    found = added(roles_with(catalog, tmp_path, endpoint)[OPERATOR])
    assert set(found) == {("acm:DescribeCertificate", "acm:GetCertificate")}


def test_without_a_certificate_nothing_is_added(environment_app: Any) -> None:
    roles = {role.path: role for role in environment_roles(environment_app, "dev")}
    assert added(roles[OPERATOR]) == {}
