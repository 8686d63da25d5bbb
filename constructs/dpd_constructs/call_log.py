"""The log group of the function that CDK makes for API calls."""

from __future__ import annotations

from typing import Final, cast

from aws_cdk import Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

_ID: Final = "ApiCallLog"


def call_log(scope: Construct) -> logs.ILogGroup:
    """Return the one log group that all API calls of a stack share, as they share one function.

    CloudFormation would make a group of the function's own name after the function, which runs at once
    and may make that group itself: then the stack fails on a group that exists.
    """
    stack = Stack.of(scope)
    existing = stack.node.try_find_child(_ID)
    return cast("logs.ILogGroup", existing or logs.LogGroup(stack, _ID))
