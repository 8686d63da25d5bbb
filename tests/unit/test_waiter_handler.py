"""The wait for HyperPod nodes, fed with answers that botocore checks against the service model."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from dpd_constructs.handlers.nodes_ready import handler

ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"
START_S = 1_000_000
LAUNCHED = datetime(2026, 11, 30, tzinfo=UTC)
GROUPS = [
    {"Name": "system", "InstanceTypes": ["ml.c5.4xlarge"], "Count": "2"},
    {"Name": "decode", "InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"], "Count": "1"},
]


@pytest.fixture
def stub() -> Iterator[Stubber]:
    """Return a stubbed SageMaker client that must receive exactly the calls it was told of."""
    client = boto3.client(
        "sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def event(request_type: str = "Create") -> dict[str, Any]:
    return {
        "RequestType": request_type,
        "PhysicalResourceId": "nodes-ready-abc123def456",
        # CloudFormation hands every number over as text.
        "ResourceProperties": {
            "ClusterArn": ARN,
            "FailureGraceSeconds": "1200",
            "TimeoutSeconds": "3000",
            "Groups": GROUPS,
        },
        "Data": {"StartedAt": str(START_S)},
    }


def node(group: str, status: str = "Running", message: str = "", **other: Any) -> dict[str, Any]:
    types = {"system": "ml.c5.4xlarge", "decode": "ml.p5.48xlarge"}
    return {
        "InstanceGroupName": group,
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": types[group],
        "LaunchTime": LAUNCHED,
        "InstanceStatus": {"Status": status, **({"Message": message} if message else {})},
        **other,
    }


def cluster(status: str = "InService", group_status: str = "InService", **other: Any) -> dict[str, Any]:
    return {
        "ClusterArn": ARN,
        "ClusterName": "dpd-dev",
        "ClusterStatus": status,
        "InstanceGroups": [
            {"InstanceGroupName": name, "Status": group_status, "CurrentCount": 0, "TargetCount": 1}
            for name in ("system", "decode")
        ],
        **other,
    }


def answer(stub: Stubber, *nodes: dict[str, Any], described: dict[str, Any] | None = None) -> None:
    stub.add_response("describe_cluster", described or cluster(), {"ClusterName": ARN})
    stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": list(nodes)}, {"ClusterName": ARN})


def answer_events(stub: Stubber, *descriptions: str, group: str = "decode", level: str = "Error") -> None:
    events = [
        {
            "EventId": f"event-{index}",
            "ClusterArn": ARN,
            "ClusterName": "dpd-dev",
            "InstanceGroupName": group,
            "ResourceType": "Instance",
            "EventTime": LAUNCHED,
            "Description": description,
            "EventLevel": level,
        }
        for index, description in enumerate(descriptions)
    ]
    expected = {"ClusterName": ARN, "SortBy": "EventTime", "SortOrder": "Descending", "MaxResults": ANY}
    stub.add_response("list_cluster_events", {"Events": events}, expected)


def poll(stub: Stubber, waited_s: int = 60, request_type: str = "Create") -> dict[str, Any]:
    return handler.is_complete(event(request_type), None, client=stub.client, now=lambda: START_S + waited_s)


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_start_notes_the_time_under_one_name(request_type: str) -> None:
    started = handler.on_event(event(request_type), None, now=lambda: START_S + 0.9)

    assert started == {
        "PhysicalResourceId": "nodes-ready-abc123def456",
        "Data": {"StartedAt": str(START_S)},
    }


def test_delete_is_complete_without_a_call(stub: Stubber) -> None:
    assert poll(stub, request_type="Delete") == {"IsComplete": True}


def test_delete_keeps_the_physical_id() -> None:
    assert handler.on_event(event("Delete"), None)["PhysicalResourceId"] == "nodes-ready-abc123def456"


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_complete_when_every_group_has_its_nodes(stub: Stubber, request_type: str) -> None:
    answer(stub, node("system"), node("system"), node("decode"))

    complete = poll(stub, request_type=request_type)

    assert complete == {"IsComplete": True, "Data": {"system": "2", "decode": "1"}}


def test_waits_while_a_group_lacks_a_node(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"))

    assert poll(stub) == {"IsComplete": False}


def test_pending_nodes_do_not_count(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", "Pending"))

    assert poll(stub) == {"IsComplete": False}


def test_a_node_in_deep_health_checks_has_arrived(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", "DeepHealthCheckInProgress"))

    assert poll(stub)["IsComplete"] is True


def test_a_node_of_a_fallback_type_has_arrived(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", InstanceType="ml.p5e.48xlarge"))

    assert poll(stub)["IsComplete"] is True


def test_nodes_of_the_former_instance_type_do_not_count(stub: Stubber) -> None:
    former = node("decode", InstanceType="ml.p5en.48xlarge")
    answer(stub, node("system"), node("system"), former)

    assert poll(stub) == {"IsComplete": False}


def test_reads_every_page_of_nodes(stub: Stubber) -> None:
    stub.add_response("describe_cluster", cluster())
    first = {"ClusterNodeSummaries": [node("system"), node("system")], "NextToken": "more"}
    stub.add_response("list_cluster_nodes", first, {"ClusterName": ARN})
    expected = {"ClusterName": ARN, "NextToken": "more"}
    stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [node("decode")]}, expected)

    assert poll(stub)["IsComplete"] is True


def test_the_deadline_tells_group_wanted_seen_message_and_event(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", "Pending", "waiting for capacity"))
    answer_events(stub, "Insufficient capacity for ml.p5.48xlarge in usw2-az1")

    with pytest.raises(RuntimeError) as raised:
        poll(stub, waited_s=3000)

    assert str(raised.value) == (
        "HyperPod cluster dpd-dev (InService) is not ready after 3000 s. "
        "group decode (InService) wants 1 ml.p5.48xlarge or ml.p5e.48xlarge, sees 1 Pending: "
        "waiting for capacity. "
        "event of group decode: Insufficient capacity for ml.p5.48xlarge in usw2-az1"
    )


def test_a_group_without_any_node_says_so(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"))
    answer_events(stub)

    with pytest.raises(RuntimeError, match=r"wants 1 ml\.p5\.48xlarge or ml\.p5e\.48xlarge, sees no node"):
        poll(stub, waited_s=3000)


@pytest.mark.parametrize(("group", "level"), [("decode", "Info"), ("system", "Error")])
def test_events_that_explain_nothing_are_left_out(stub: Stubber, group: str, level: str) -> None:
    answer(stub, node("system"), node("system"))
    answer_events(stub, "irrelevant", group=group, level=level)

    with pytest.raises(RuntimeError) as raised:
        poll(stub, waited_s=3000)

    assert "irrelevant" not in str(raised.value)


def test_a_failed_node_may_be_replaced_at_first(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", "Failure", "lifecycle script failed"))

    assert poll(stub, waited_s=1199) == {"IsComplete": False}


def test_a_failed_node_ends_the_wait_after_the_grace(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"), node("decode", "Failure", "lifecycle script failed"))
    answer_events(stub)

    with pytest.raises(RuntimeError, match="sees 1 Failure: lifecycle script failed"):
        poll(stub, waited_s=1200)


def test_a_failed_group_ends_the_wait_after_the_grace(stub: Stubber) -> None:
    answer(stub, described=cluster(group_status="Failed"))
    answer_events(stub)

    with pytest.raises(RuntimeError, match=r"group system \(Failed\) wants 2"):
        poll(stub, waited_s=1200)


@pytest.mark.parametrize("status", ["Failed", "RollingBack", "Deleting"])
def test_a_lost_cluster_ends_the_wait_at_once(stub: Stubber, status: str) -> None:
    answer(stub, described=cluster(status, FailureMessage="Unable to retrieve subnets"))
    answer_events(stub)

    with pytest.raises(RuntimeError, match=rf"dpd-dev \({status}\).*Unable to retrieve subnets"):
        poll(stub)


def test_a_reason_fits_into_a_cloudformation_answer(stub: Stubber) -> None:
    answer(stub, node("decode", "Failure", "x" * 9000))
    answer_events(stub)

    with pytest.raises(RuntimeError) as raised:
        poll(stub, waited_s=3000)

    assert len(str(raised.value)) == 1500


def test_the_reason_survives_when_events_cannot_be_read(stub: Stubber) -> None:
    answer(stub, node("system"), node("system"))
    stub.add_client_error("list_cluster_events", "AccessDeniedException", "no")

    with pytest.raises(RuntimeError, match=r"group decode .*events could not be read"):
        poll(stub, waited_s=3000)


def test_an_sdk_that_is_older_than_events_still_gives_the_reason(
    stub: Stubber, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(stub, node("system"), node("system"))
    monkeypatch.delattr(type(stub.client), "list_cluster_events")

    with pytest.raises(RuntimeError, match="group decode"):
        poll(stub, waited_s=3000)


def test_an_error_of_the_service_is_not_taken_for_waiting(stub: Stubber) -> None:
    stub.add_client_error("describe_cluster", "ResourceNotFound", "Could not find cluster")

    with pytest.raises(stub.client.exceptions.ResourceNotFound):
        poll(stub)
