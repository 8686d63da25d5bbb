"""What a plan says about placement, and what the ways out of a network cost."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.locality_text import locality_lines
from dpd.sizing.cost import cost
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.endpoints import interface_services
from dpd.spec.environment import Environment


def dev(catalog: Catalog, **changes: Any) -> Environment:
    value = catalog.environments["dev"].value
    assert value is not None
    data = value.model_dump(mode="json", by_alias=True)
    for key, item in changes.items():
        data[key] = {**data[key], **item}
    return Environment.model_validate(data)


def served(catalog: Catalog, facts: Facts, environment: Environment, **dpd: Any) -> list[Deployment]:
    model = catalog.models["llama-3.3-70b"].value
    assert model is not None
    changed = type(model).model_validate(
        {**model.model_dump(mode="json"), "dpd": {**model.model_dump(mode="json")["dpd"], **dpd}}
    )
    return [build_deployment(environment, changed, facts)]


def test_locality_is_the_zone_and_the_role_labels(catalog: Catalog, facts: Facts) -> None:
    environment = dev(catalog)
    assert locality_lines(environment, served(catalog, facts, environment)) == [
        "Locality: one zone, usw2-az1, for every GPU node; pools by hyperpod-dpd/role"
    ]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("create", "The placement group that the network stack makes is for EC2 instances of your own: "),
        ("ours", "Placement group ours is for EC2 instances of your own: "),
    ],
)
def test_a_placement_group_is_said_to_hold_no_node(catalog: Catalog, wanted: str, says: str) -> None:
    (_, line) = locality_lines(dev(catalog, network={"placement_group": wanted}), [])
    assert line == f"{says}HyperPod nodes do not join it"


def test_what_a_model_asks_for_is_said(catalog: Catalog, facts: Facts) -> None:
    environment = dev(catalog)
    key = "topology.k8s.aws/network-node-layer-3"
    topology = {"same_zone": False, "placement_group": "ours"}
    prefill = {"replicas": 1, "max_num_seqs": 16, "node_selector": {key: "nn-1"}}
    lines = locality_lines(
        environment, served(catalog, facts, environment, topology=topology, prefill=prefill)
    )
    assert lines[1:] == [
        "  llama-3.3-70b: the operator is not asked to keep both roles in one zone",
        f"  llama-3.3-70b: prefill on nodes with {key}=nn-1",
        "  llama-3.3-70b: placement group ours is passed on, to no known effect",
    ]


def priced(environment: Environment, facts: Facts) -> dict[str, int]:
    return {
        line.name: line.count for line in cost(environment, facts).lines if not line.name.endswith(" nodes")
    }


EXISTING = {
    "existing": {
        "vpc_id": "vpc-0123456789abcdef0",
        "gpu_subnet_id": "subnet-0123456789abcdef0",
        "control_plane_subnet_ids": ["subnet-1123456789abcdef0", "subnet-2123456789abcdef0"],
        "security_groups": [{"id": "sg-0123456789abcdef0"}],
    }
}


def test_each_way_out_has_its_price(catalog: Catalog, facts: Facts) -> None:
    assert priced(dev(catalog), facts) == {"EKS control plane": 1, "NAT gateway": 1}
    closed = dev(catalog, network={"closed": True})
    services = interface_services(closed, facts, file_systems=False)
    assert priced(closed, facts) == {"EKS control plane": 1, "interface endpoints": 2 * len(services)}
    assert cost(closed, facts).complete


def test_an_existing_network_is_paid_already(catalog: Catalog, facts: Facts) -> None:
    assert priced(dev(catalog, network=EXISTING), facts) == {"EKS control plane": 1}
    assert priced(dev(catalog, network={**EXISTING, "closed": True}), facts) == {"EKS control plane": 1}


@pytest.mark.parametrize(("file_systems", "prometheus"), [(True, False), (False, True), (False, False)])
def test_services_that_only_some_need_are_left_out(
    catalog: Catalog, facts: Facts, *, file_systems: bool, prometheus: bool
) -> None:
    url = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab" if prometheus else None
    environment = dev(catalog, network={"closed": True}, observability={"prometheus_url": url})
    services = interface_services(environment, facts, file_systems=file_systems)
    assert ("fsx" in services, "aps-workspaces" in services) == (file_systems, prometheus)
