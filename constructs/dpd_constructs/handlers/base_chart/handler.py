"""Install and remove HyperPod's base chart: start a build, then follow it to its end.

The two entry points are those of CDK's provider framework. CloudFormation sees whatever they raise
as the reason of the failure, so that no failure is silent (report P-05).
"""

from __future__ import annotations

from typing import Any

import boto3
from botocore.exceptions import ClientError

Event = dict[str, Any]

# CloudFormation takes answers of 4 KB; the framework and the physical id need part of that.
_REASON_CHARACTERS = 2500
_LOG_LINES = 8


def on_event(event: Event, _context: object) -> Event:
    """Start the build that CloudFormation's request asks for."""
    return start(event, boto3.client("codebuild"))


def is_complete(event: Event, _context: object) -> Event:
    """Tell whether the build has ended; raise with its reason where it failed."""
    return follow(event, boto3.client("codebuild"), boto3.client("logs"))


def start(event: Event, codebuild: Any) -> Event:
    """Start a build: `uninstall` for a deletion, `install` (an upgrade, too) for everything else.

    The physical id names the release, so that a new commit or new values upgrade in place, and a
    renamed release installs the new one before the old one goes.
    """
    properties = event["ResourceProperties"]
    variables = {
        **properties["Variables"],
        "ACTION": "uninstall" if event["RequestType"] == "Delete" else "install",
    }
    answer = codebuild.start_build(
        projectName=properties["Project"],
        # A retried request finds the build that the first one started.
        idempotencyToken=event["RequestId"],
        environmentVariablesOverride=[
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
        ],
    )
    release = f"{variables['NAMESPACE']}/{variables['RELEASE']}"
    return {"PhysicalResourceId": release, "Data": {"BuildId": answer["build"]["id"]}}


def follow(event: Event, codebuild: Any, logs: Any) -> Event:
    """Return whether the build has ended, with the variables that it exports.

    The build's own time limit ends it as TIMED_OUT, so this never waits without end. Raises
    RuntimeError with phase, messages, last lines and place of the log.
    """
    build_id = event["Data"]["BuildId"]
    builds = codebuild.batch_get_builds(ids=[build_id])["builds"]
    if not builds:
        raise RuntimeError(f"build {build_id} does not exist any more")
    build = builds[0]
    if build["buildStatus"] == "IN_PROGRESS":
        return {"IsComplete": False}
    if build["buildStatus"] == "SUCCEEDED":
        exported = {item["name"]: item["value"] for item in build.get("exportedEnvironmentVariables", [])}
        return {"IsComplete": True, "Data": {"BuildId": build_id, **exported}}
    raise RuntimeError(failure(build, _last_lines(build, logs)))


def failure(build: Event, last_lines: str) -> str:
    """Say in which phase a build ended badly, why, and where its log is."""
    phases = build.get("phases", [])
    bad = [phase for phase in phases if phase.get("phaseStatus", "SUCCEEDED") != "SUCCEEDED"]
    phase = (bad or phases[-1:] or [{"phaseType": build.get("currentPhase", "unknown")}])[0]
    messages = [context.get("message", "") for context in phase.get("contexts", [])]
    text = f"base chart: build {build['id']} is {build['buildStatus']} in phase {phase['phaseType']}"
    text += "".join(f"; {message}" for message in messages if message)
    text += f"; last lines: {last_lines}" if last_lines else ""
    link = f"; log: {build.get('logs', {}).get('deepLink', 'none')}"
    return text[: _REASON_CHARACTERS - len(link)] + link


def _last_lines(build: Event, logs: Any) -> str:
    """Return the last lines that the steps themselves wrote; empty where the log cannot be read."""
    place = build.get("logs", {})
    if not place.get("groupName") or not place.get("streamName"):
        return ""
    try:
        events = logs.get_log_events(
            logGroupName=place["groupName"], logStreamName=place["streamName"], limit=100
        )["events"]
    except ClientError:
        return ""
    lines = [event["message"].strip() for event in events]
    # CodeBuild marks its own progress lines so.
    written = [line for line in lines if line and not line.startswith("[Container]")]
    return " | ".join(written[-_LOG_LINES:])
