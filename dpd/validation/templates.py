"""Validate CloudFormation templates: AWS's validator with our Guard rules, cfn-lint, add-on values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from cloudformation_validate import (
    CompositeEngine,
    CompositeEngineConfig,
    Diagnostic,
    ExternalRuleSource,
    PseudoParameterOverrides,
    RuleOrigin,
    ValidateConfig,
)
from cloudformation_validate import Severity as TemplateSeverity

from dpd.facts import Facts
from dpd.finding import Finding, Severity
from dpd.project import ROOT
from dpd.rules.operator_addon import unknown_configuration_keys
from dpd.validation.ignored import Ignored
from dpd.yaml_file import dotted

POLICY = ROOT / "policy"


def validate_templates(folder: Path, region: str, facts: Facts, ignored: Ignored) -> list[Finding]:
    """Validate every ``*.template.json`` of a cloud assembly for one region."""
    findings: list[Finding] = []
    paths = sorted(folder.glob("*.template.json"))
    for path in paths:
        findings += _by_schema_and_guard(path, region, ignored)
        findings += _addon_values(path, facts)
    findings += _by_cfn_lint(paths, region, ignored)
    return findings


@cache
def engine() -> CompositeEngine:
    """Return AWS's validator with our Guard rules; it compiles 300 rules, so it is made once."""
    rules = [
        ExternalRuleSource(name=path.name, content=path.read_text(encoding="utf-8"))
        for path in sorted(POLICY.glob("*.guard"))
    ]
    return CompositeEngine(CompositeEngineConfig(guard_rules=rules))


def _by_schema_and_guard(path: Path, region: str, ignored: Ignored) -> Iterable[Finding]:
    config = ValidateConfig(pseudo_parameter_overrides=PseudoParameterOverrides(region=region))
    for item in engine().validate_template(str(path), config).diagnostics:
        if item.severity not in {TemplateSeverity.WARN, TemplateSeverity.ERROR, TemplateSeverity.FATAL}:
            continue
        if item.severity == TemplateSeverity.WARN and ignored.match(
            "cloudformation-validate", item.rule_id, _logical_id(item)
        ):
            continue
        ours = item.source == RuleOrigin.GUARD
        place = ".".join(part for part in (_logical_id(item), item.property_path) if part)
        yield Finding(
            id="VAL002" if ours else "VAL001",
            severity=Severity.WARNING if item.severity == TemplateSeverity.WARN else Severity.ERROR,
            path=place,
            message=f"{item.rule_id}: {item.message}",
            fix=item.suggested_fix or "",
            source=item.documentation_url or "",
            file=str(path),
            line=item.start_line,
        )


def _logical_id(item: Diagnostic) -> str:
    return str(getattr(item.entity, "logical_id", "") or "") if item.entity else ""


def _by_cfn_lint(paths: list[Path], region: str, ignored: Ignored) -> Iterable[Finding]:
    with warnings.catch_warnings():
        # networkx and regex, which cfn-lint imports, warn about their own deprecations.
        warnings.simplefilter("ignore", DeprecationWarning)
        from cfnlint import ManualArgs, lint
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for match in lint(text, config=ManualArgs(regions=[region])):
            place = tuple(cast("list[str | int]", getattr(match, "path", None) or []))
            logical_id = str(place[1]) if len(place) > 1 else ""
            rule = str(match.rule.id)
            error = rule.startswith("E")
            if not error and ignored.match("cfn-lint", rule, logical_id):
                continue
            yield Finding(
                id="VAL003",
                severity=Severity.ERROR if error else Severity.WARNING,
                path=dotted(place),
                message=f"{rule}: {match.message}",
                source=str(match.rule.source_url),
                file=str(path),
                line=match.linenumber,
            )


def _addon_values(path: Path, facts: Facts) -> Iterable[Finding]:
    """Check the configuration values of add-ons, which every schema takes as plain text."""
    template = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    for logical_id, resource in template.get("Resources", {}).items():
        properties = resource.get("Properties", {})
        if resource["Type"] != "AWS::EKS::Addon" or "ConfigurationValues" not in properties:
            continue
        text = _as_text(properties["ConfigurationValues"])
        place = f"{logical_id}.ConfigurationValues"
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            message = f"the add-on's configuration is not JSON: {error}"
            yield Finding("VAL006", Severity.ERROR, place, message, text, file=str(path))
            continue
        row = facts.addon_configuration.get(str(properties["AddonName"]))
        unknown = unknown_configuration_keys(values, row) if row else []
        missing = [key for key in row.required if not _has(values, key)] if row else []
        for key, what in [
            *((dotted(key), "has no key") for key in unknown),
            *((k, "lacks") for k in missing),
        ]:
            message = f"configuration of {properties['AddonName']} {what} `{key}`"
            yield Finding(
                "VAL006", Severity.ERROR, place, message, key, row and list(row.keys), file=str(path)
            )


def _has(values: Mapping[str, Any], key: str) -> bool:
    node: Any = values
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]  # pyright: ignore[reportUnknownVariableType]
    return True


def _as_text(value: Any) -> str:
    """Return a property as text, with a stand-in for what only CloudFormation knows."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]  # pyright: ignore[reportUnknownVariableType]
        return str(separator).join(_as_text(part) for part in parts)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return "token"
