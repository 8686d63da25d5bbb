"""The custom resource of the base chart, against CodeBuild's and CloudWatch Logs' service models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from dpd_constructs.handlers.base_chart import handler

BUILD_ID = "base-chart:7c2e1a90-5d0b-4c55-9a8e-2f6f0f3d1b11"
LINK = "https://console.aws.amazon.com/cloudwatch/home?region=us-west-2#logEvent:group=g;stream=s"
VARIABLES = {"NAMESPACE": "kube-system", "RELEASE": "hyperpod-dependencies", "COMMIT": "0" * 40}
Stub = tuple[Any, Stubber]


def _stub(service: str) -> Iterator[Stub]:
    client = boto3.client(
        service, region_name="us-west-2", aws_access_key_id="test", aws_secret_access_key="test"
    )
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def codebuild() -> Iterator[Stub]:
    yield from _stub("codebuild")


@pytest.fixture
def logs() -> Iterator[Stub]:
    yield from _stub("logs")


def request(kind: str) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "RequestId": "c3a8d0e6-1111-4222-8333-944445555666",
        "ResourceProperties": {"Project": "BaseChartBuild", "Variables": VARIABLES},
    }


def build(status: str, **more: Any) -> dict[str, Any]:
    place = {"deepLink": LINK, "groupName": "g", "streamName": "s"}
    return {"id": BUILD_ID, "buildStatus": status, "logs": place, **more}


def phase(kind: str, status: str, *messages: str) -> dict[str, Any]:
    contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": message} for message in messages]
    return {"phaseType": kind, "phaseStatus": status, "contexts": contexts}


@pytest.mark.parametrize(
    ("kind", "action"), [("Create", "install"), ("Update", "install"), ("Delete", "uninstall")]
)
def test_each_request_starts_one_build(codebuild: Stub, kind: str, action: str) -> None:
    client, stubber = codebuild
    overrides = [
        {"name": name, "value": value, "type": "PLAINTEXT"}
        for name, value in {**VARIABLES, "ACTION": action}.items()
    ]
    stubber.add_response(
        "start_build",
        {"build": build("IN_PROGRESS")},
        {
            "projectName": "BaseChartBuild",
            "idempotencyToken": request(kind)["RequestId"],
            "environmentVariablesOverride": overrides,
        },
    )
    assert handler.start(request(kind), client) == {
        "PhysicalResourceId": "kube-system/hyperpod-dependencies",
        "Data": {"BuildId": BUILD_ID},
    }


def follow(codebuild: Stub, logs: Stub, *builds: dict[str, Any]) -> dict[str, Any]:
    client, stubber = codebuild
    stubber.add_response("batch_get_builds", {"builds": list(builds)}, {"ids": [BUILD_ID]})
    return handler.follow({"Data": {"BuildId": BUILD_ID}}, client, logs[0])


def test_running_build_is_not_complete(codebuild: Stub, logs: Stub) -> None:
    assert follow(codebuild, logs, build("IN_PROGRESS")) == {"IsComplete": False}


def test_finished_build_hands_on_the_measured_digest(codebuild: Stub, logs: Stub) -> None:
    exported = [{"name": "ARCHIVE_SHA256_MEASURED", "value": "ab" * 32}]
    answer = follow(codebuild, logs, build("SUCCEEDED", exportedEnvironmentVariables=exported))
    assert answer == {
        "IsComplete": True,
        "Data": {"BuildId": BUILD_ID, "ARCHIVE_SHA256_MEASURED": "ab" * 32},
    }


def log_lines(logs: Stub, *lines: str) -> None:
    events = [{"timestamp": 1, "ingestionTime": 1, "message": f"{line}\n"} for line in lines]
    parameters = {"logGroupName": "g", "logStreamName": "s", "limit": 100}
    logs[1].add_response("get_log_events", {"events": events}, parameters)


def test_failure_names_phase_messages_log_lines_and_link(codebuild: Stub, logs: Stub) -> None:
    log_lines(
        logs,
        "chart: the archive's SHA-256 is aa, configured is bb",
        "[Container] 2026/11/30 10:00:00 Phase complete: PRE_BUILD State: FAILED",
    )
    phases = [
        phase("INSTALL", "SUCCEEDED", ""),
        phase("PRE_BUILD", "FAILED", "Error while executing command: bash fetch.sh"),
        phase("FINALIZING", "SUCCEEDED"),
    ]
    with pytest.raises(RuntimeError) as failure:
        follow(codebuild, logs, build("FAILED", phases=phases))
    assert str(failure.value) == (
        f"base chart: build {BUILD_ID} is FAILED in phase PRE_BUILD; "
        "Error while executing command: bash fetch.sh; "
        "last lines: chart: the archive's SHA-256 is aa, configured is bb; "
        f"log: {LINK}"
    )


@pytest.mark.parametrize("status", ["TIMED_OUT", "STOPPED", "FAULT"])
def test_a_build_that_was_cut_off_names_its_last_phase(codebuild: Stub, logs: Stub, status: str) -> None:
    log_lines(logs)
    phases = [phase("INSTALL", "SUCCEEDED"), phase("BUILD", status)]
    with pytest.raises(RuntimeError, match=rf"is {status} in phase BUILD; log: https://"):
        follow(codebuild, logs, build(status, phases=phases))


def test_a_build_without_phases_still_gives_a_reason(codebuild: Stub, logs: Stub) -> None:
    log_lines(logs)
    with pytest.raises(RuntimeError, match="is STOPPED in phase QUEUED; log: https://"):
        follow(codebuild, logs, build("STOPPED", currentPhase="QUEUED"))


def test_a_log_that_cannot_be_read_does_not_hide_the_failure(codebuild: Stub, logs: Stub) -> None:
    logs[1].add_client_error("get_log_events", "ResourceNotFoundException")
    with pytest.raises(RuntimeError, match="is FAILED in phase BUILD; log: https://"):
        follow(codebuild, logs, build("FAILED", phases=[phase("BUILD", "FAILED")]))


def test_a_build_that_is_gone_is_a_failure(codebuild: Stub, logs: Stub) -> None:
    with pytest.raises(RuntimeError, match=f"build {BUILD_ID} does not exist any more"):
        follow(codebuild, logs)


def test_a_long_reason_is_cut_but_keeps_the_link() -> None:
    text = handler.failure(build("FAILED", phases=[phase("BUILD", "FAILED", "x" * 9000)]), "")
    assert len(text) == 2500
    assert text.endswith(f"; log: {LINK}")


def test_entry_points_make_their_clients_when_they_run(
    codebuild: Stub, logs: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = {"codebuild": codebuild[0], "logs": logs[0]}
    monkeypatch.setattr(handler.boto3, "client", clients.__getitem__)
    codebuild[1].add_response("start_build", {"build": build("IN_PROGRESS")})
    codebuild[1].add_response("batch_get_builds", {"builds": [build("SUCCEEDED")]})
    started = handler.on_event(request("Create"), None)
    assert handler.is_complete({**request("Create"), **started}, None)["IsComplete"]
