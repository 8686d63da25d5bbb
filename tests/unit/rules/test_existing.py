"""NET and CLU: what an existing network and an existing cluster must be like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dpd.finding import Finding

Check = Callable[..., list[Finding]]

GROUP = {"id": "sg-0123456789abcdef0", "self_ingress": True, "self_egress": True}
NETWORK: dict[str, Any] = {
    "vpc_id": "vpc-0123456789abcdef0",
    "gpu_subnet_id": "subnet-0123456789abcdef0",
    "control_plane_subnet_ids": ["subnet-1123456789abcdef0", "subnet-2123456789abcdef0"],
    "security_groups": [GROUP],
}
CLUSTER: dict[str, Any] = {
    "cluster_name": "ours",
    "kubectl_role_arn": "arn:aws:iam::111122223333:role/kubectl",
    "oidc_provider_arn": "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0A1B",
    "security_group_id": "sg-1123456789abcdef0",
}


def dev(
    network: Mapping[str, Any] = {}, cluster: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    edits: dict[str, Any] = {
        "network.existing": {**NETWORK, **network},
        "network.gpu_subnet_cidr": "10.0.64.0/18",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return edits if cluster is None else {**edits, "kubernetes.existing": {**CLUSTER, **cluster}}


def test_a_described_network_and_cluster_are_accepted(check: Check) -> None:
    assert check(dev=dev()) == []
    assert check(dev=dev(cluster={"addons": ["cert-manager"]})) == []


@pytest.mark.parametrize(
    ("group", "lacks"),
    [
        ({"id": GROUP["id"]}, "self_ingress and self_egress"),
        ({**GROUP, "self_egress": False}, "self_egress"),
        ({**GROUP, "self_ingress": False}, "self_ingress"),
    ],
    ids=["P-01 P-02 neither", "P-02 no egress", "P-01 no ingress"],
)
def test_every_group_is_declared_to_admit_itself(check: Check, group: dict[str, Any], lacks: str) -> None:
    (finding,) = check(dev=dev({"security_groups": [GROUP, group]}))
    assert (finding.id, finding.path) == ("NET003", "network.existing.security_groups[1]")
    assert f"is not declared to have {lacks}" in finding.message


def test_the_range_of_the_existing_subnet_must_be_stated(check: Check) -> None:
    (finding,) = check(dev={"network": {"existing": NETWORK}})
    assert (finding.id, finding.path) == ("NET008", "network.gpu_subnet_cidr")


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        (dev({"control_plane_subnet_ids": [NETWORK["gpu_subnet_id"]] * 2}), "network.existing"),
        (dev(network__control_plane_zone_ids=["usw2-az1"]), "network.control_plane_zone_ids"),
        (dev(weights__fsx_security_group_id="sg-2123456789abcdef0"), "weights.fsx_security_group_id"),
    ],
    ids=["one subnet twice", "zones", "rules for Lustre"],
)
def test_settings_of_new_networks_are_refused(check: Check, edits: dict[str, Any], path: str) -> None:
    (finding,) = check(dev=edits)
    assert (finding.id, finding.path) == ("NET008", path)


def test_addresses_are_counted_in_the_existing_subnet(check: Check) -> None:
    assert [finding.id for finding in check(dev=dev(network__gpu_subnet_cidr="10.0.64.0/25"))] == ["NET001"]


@pytest.mark.parametrize("mode", ["API", "API_AND_CONFIG_MAP"])
def test_access_entries_are_enough(check: Check, mode: str) -> None:
    assert check(dev=dev(cluster={"authentication_mode": mode})) == []


def test_a_cluster_of_config_maps_is_refused(check: Check) -> None:
    (finding,) = check(dev=dev(cluster={"authentication_mode": "CONFIG_MAP"}))
    assert (finding.id, finding.path) == ("CLU005", "kubernetes.existing.authentication_mode")


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ({"kubernetes.existing": CLUSTER}, "kubernetes.existing"),
        (
            dev(cluster={}, kubernetes__public_access_cidrs=["203.0.113.0/24"]),
            "kubernetes.public_access_cidrs",
        ),
        (dev(cluster={"addons": ["cert-manger"]}), "kubernetes.existing.addons[0]"),
    ],
    ids=["no network", "its endpoint", "an add-on that nobody installs"],
)
def test_inconsistent_clusters_are_refused(check: Check, edits: dict[str, Any], path: str) -> None:
    (finding,) = check(dev=edits)
    assert (finding.id, finding.path) == ("CLU006", path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vpc_id", "vpc-XYZ"),
        ("control_plane_subnet_ids", ["subnet-1123456789abcdef0"]),
        ("security_groups", []),
        ("security_groups", [GROUP] * 6),
    ],
)
def test_ids_and_counts_are_those_that_the_services_take(check: Check, key: str, value: Any) -> None:
    (finding,) = check(dev=dev({key: value}))
    assert finding.id == "CFG003"
    assert finding.path.startswith(f"network.existing.{key}")
