"""OPR: the version of the operator's add-on, and its configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import cast

from dpd.facts import AddonConfigurationFact, OperatorFact
from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, accept_hint, environment_rule
from dpd.versions import PINNED_ADDON, ordered, release
from dpd.yaml_file import Path_, dotted

_NOTES = "docs.aws.amazon.com: sagemaker-hyperpod-inference-release-notes"
_SETUP = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup"
_VERSION = ("operator", "addon_version")
ADDON = "amazon-sagemaker-hyperpod-inference"


def _first_with_dpd(operators: Mapping[str, OperatorFact]) -> str:
    return min((name for name, row in operators.items() if row.supports_dpd), key=ordered)


def _too_old(version: str | None, operators: Mapping[str, OperatorFact]) -> bool:
    """Tell whether a release, with or without its build, is older than the first one with DPD."""
    asked, floor = release(version or ""), release(_first_with_dpd(operators))
    return asked is not None and floor is not None and asked < floor


@environment_rule(
    "OPR001",
    Severity.ERROR,
    Doc(
        title="Operator too old for DPD",
        symptom="Workers restart in a loop with EngineDeadError or TimeoutError (report P-20).",
        cause="`pdSpec` exists from operator v3.2 on, which add-on v1.3.0-eksbuild.1 brought.",
        fix="Raise `operator.addon_version`.",
        source=_NOTES,
        bad="operator: {addon_version: v1.2.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_too_old(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an add-on older than the first one with DPD."""
    version = context.environment.operator.addon_version
    floor = _first_with_dpd(context.facts.operator)
    if _too_old(version, context.facts.operator):
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} has no disaggregated prefill and decode",
            got=version,
            allowed=f"{floor} or later",
            fix=f"use {floor} or later",
            owner="environment",
        )


@environment_rule(
    "OPR002",
    Severity.ERROR,
    Doc(
        title="Operator not pinned",
        symptom="A deployment that worked yesterday fails, because the add-on's default moved (report P-18).",
        cause="Without a full version EKS installs its current default.",
        fix="Name the full version, with its eksbuild number.",
        source="awslabs/awsome-distributed-ai#1076",
        bad="operator: {}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_pinned(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an add-on version that is absent or not complete."""
    version = context.environment.operator.addon_version
    if version and PINNED_ADDON.fullmatch(version):
        return
    if _too_old(version, context.facts.operator):
        return
    yield Hit(
        path=_VERSION,
        message="the operator's add-on is not pinned to a full version",
        got=version,
        allowed="v<major>.<minor>.<patch>-eksbuild.<n>",
        fix=f"write one of {', '.join(n for n, row in context.facts.operator.items() if row.supports_dpd)}",
        owner="environment",
    )


@environment_rule(
    "OPR003",
    Severity.WARNING,
    Doc(
        title="Operator with known routing defects",
        symptom="Every request answers 503 right after deploy, because the routing Service is missing.",
        cause="Operator v3.2 (add-on v1.3.x) can leave the routing Service out; v3.3 mends it.",
        fix="Use add-on v1.4.0-eksbuild.1 or later.",
        source=_NOTES,
        bad="operator: {addon_version: v1.3.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_defects(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a version that supports DPD and has known defects."""
    version = context.environment.operator.addon_version
    row = context.facts.operator.get(version or "")
    if row is not None and row.supports_dpd and row.known_defects:
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} has known defects: {'; '.join(row.known_defects)}",
            got=version,
            fix="use a later version",
            owner="environment",
        )


@environment_rule(
    "OPR008",
    Severity.ERROR,
    Doc(
        title="Unknown key in an add-on's configuration",
        symptom="The add-on fails to create, or ignores the value; no template validator reads this text.",
        cause="EKS keeps configuration values as one JSON string, so a template cannot check its keys.",
        fix="Use a key that the message lists.",
        source=_SETUP,
        bad="operator: {configuration: {executionRoleARN: arn:aws:iam::111122223333:role/x}}",
        good="operator: {configuration: {affinity: {}}}",
    ),
)
def addon_configuration(context: EnvironmentContext) -> Iterable[Hit]:
    """Report configuration keys that the inference add-on does not have."""
    row = context.facts.addon_configuration.get(ADDON)
    if row is None:
        return
    for path in unknown_configuration_keys(context.environment.operator.configuration, row):
        near = difflib.get_close_matches(dotted(path), row.keys, n=1)
        yield Hit(
            path=("operator", "configuration", *path),
            message=f"{ADDON} has no configuration key `{dotted(path)}`",
            got=dotted(path),
            allowed=list(row.keys),
            fix=f"did you mean `{near[0]}`?" if near else f"known: {', '.join(row.keys)}",
            owner="environment",
        )


def unknown_configuration_keys(
    values: Mapping[str, object], row: AddonConfigurationFact, prefix: Path_ = ()
) -> list[Path_]:
    """Return the paths in an add-on's configuration that its facts do not list."""
    unknown: list[Path_] = []
    for key, value in values.items():
        path = (*prefix, key)
        name = dotted(path)
        if any(known in {name, f"{name}.*"} or _below(name, known) for known in row.keys):
            continue
        if isinstance(value, Mapping) and any(known.startswith(f"{name}.") for known in row.keys):
            unknown += unknown_configuration_keys(cast("Mapping[str, object]", value), row, path)
        else:
            unknown.append(path)
    return unknown


def _below(name: str, known: str) -> bool:
    return known.endswith(".*") and name.startswith(known[:-1])


@environment_rule(
    "OPR009",
    Severity.WARNING,
    Doc(
        title="Operator version not in the facts",
        symptom="Behaviour that nobody of this project has read about.",
        cause="The version is newer than the package's facts, or does not exist.",
        fix="Add a row to config/facts/operator.yaml with its source, or accept the finding with a reason.",
        source=_NOTES,
        bad="operator: {addon_version: v9.0.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_known(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a complete version at or above the floor that the facts do not hold."""
    version, operators = context.environment.operator.addon_version, context.facts.operator
    if not version or version in operators:
        return
    if not PINNED_ADDON.fullmatch(version):
        return
    if not _too_old(version, operators):
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} is not in the compatibility facts",
            got=version,
            allowed=list(operators),
            fix=f"add a row with its source to config/facts/operator.yaml, {accept_hint('OPR009')}",
            owner="environment",
        )
