"""Statements that cover more than one named resource, each with the reason.

docs/iam.md prints the reasons, and a test refuses a `*` without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam

_reasons: dict[str, str] = {}


def wildcard(
    sid: str,
    reason: str,
    *,
    actions: Sequence[str],
    resources: Sequence[str] = ("*",),
    conditions: Mapping[str, object] | None = None,
) -> iam.PolicyStatement:
    """Allow ``actions`` on resources with a `*` in their name, for a reason.

    ``sid`` (letters and digits) carries the reason through the template: CDK merges statements, but
    none that has one. Raises ValueError where one sid is given two reasons.
    """
    if _reasons.setdefault(sid, reason) != reason:
        raise ValueError(f"statement {sid} has two reasons: {_reasons[sid]!r} and {reason!r}")
    return iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=dict(conditions or {})
    )


def reasons() -> Mapping[str, str]:
    """Return the reason of every statement made so far in this process, by sid."""
    return dict(sorted(_reasons.items()))
