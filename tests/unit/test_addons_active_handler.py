"""The wait for EKS add-ons, fed with answers that botocore checks against the service model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from dpd_constructs.handlers.addons_active import handler

START_S = 1_000_000


@pytest.fixture
def stub() -> Iterator[Stubber]:
    """Return a stubbed EKS client that must receive exactly the calls it was told of."""
    client = boto3.client("eks", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def event(request_type: str = "Create") -> dict[str, Any]:
    properties = {"ClusterName": "dpd-dev", "TimeoutSeconds": "900", "Addons": ["coredns", "cert-manager"]}
    return {
        "RequestType": request_type,
        "ResourceProperties": properties,
        "Data": {"StartedAt": str(START_S)},
    }


def answer(stub: Stubber, coredns: str = "ACTIVE", *issues: tuple[str, str]) -> None:
    for name, status in (("coredns", coredns), ("cert-manager", "ACTIVE")):
        addon: dict[str, Any] = {"addonName": name, "clusterName": "dpd-dev", "status": status}
        addon["addonVersion"] = "v1.12.4-eksbuild.1"
        addon["health"] = {
            "issues": [
                {"code": code, "message": message, "resourceIds": []}
                for code, message in issues
                if name == "coredns"
            ]
        }
        stub.add_response("describe_addon", {"addon": addon}, {"clusterName": "dpd-dev", "addonName": name})


def poll(stub: Stubber, waited_s: int = 60) -> dict[str, Any]:
    return handler.is_complete(event(), None, client=stub.client, now=lambda: START_S + waited_s)


def test_start_notes_the_time_under_one_name() -> None:
    assert handler.on_event(event(), None, now=lambda: START_S + 0.9) == {
        "PhysicalResourceId": "addons-active-dpd-dev",
        "Data": {"StartedAt": str(START_S)},
    }


def test_delete_is_complete_without_a_call(stub: Stubber) -> None:
    assert handler.is_complete(event("Delete"), None, client=stub.client) == {"IsComplete": True}


def test_complete_when_every_addon_is_active(stub: Stubber) -> None:
    answer(stub)

    assert poll(stub) == {"IsComplete": True}


@pytest.mark.parametrize("status", ["CREATING", "UPDATING", "DEGRADED"])
def test_waits_for_an_addon_that_may_still_come(stub: Stubber, status: str) -> None:
    answer(stub, status)

    assert poll(stub) == {"IsComplete": False}


def test_the_deadline_tells_addon_version_status_and_issue(stub: Stubber) -> None:
    answer(stub, "DEGRADED", ("InsufficientNumberOfReplicas", "The add-on has no running pods."))

    with pytest.raises(RuntimeError) as raised:
        poll(stub, waited_s=900)

    assert str(raised.value) == (
        "add-ons of cluster dpd-dev are not active after 900 s. coredns v1.12.4-eksbuild.1 is DEGRADED"
        " (InsufficientNumberOfReplicas: The add-on has no running pods.)"
    )


@pytest.mark.parametrize("status", ["CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "DELETING"])
def test_a_failed_addon_ends_the_wait_at_once(stub: Stubber, status: str) -> None:
    answer(stub, status, ("ConfigurationConflict", "owned by helm"))

    with pytest.raises(RuntimeError, match=rf"is {status} \(ConfigurationConflict: owned by helm\)"):
        poll(stub)


def test_a_reason_fits_into_a_cloudformation_answer(stub: Stubber) -> None:
    answer(stub, "DEGRADED", *(("ClusterUnreachable", "x" * 400) for _ in range(9)))

    with pytest.raises(RuntimeError) as raised:
        poll(stub, waited_s=900)

    assert len(str(raised.value)) <= 1500


def test_an_addon_that_nobody_declared_is_not_taken_for_waiting(stub: Stubber) -> None:
    stub.add_client_error("describe_addon", "ResourceNotFoundException", "No addon: coredns found")

    with pytest.raises(ClientError, match="No addon: coredns"):
        poll(stub)
