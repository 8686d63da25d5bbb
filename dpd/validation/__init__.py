"""Every offline validator over a written bundle, as findings with the ids VAL001 to VAL006."""

from __future__ import annotations

from pathlib import Path

from dpd.facts import Facts
from dpd.finding import Finding
from dpd.spec.environment import Environment
from dpd.validation.ignored import load_ignored
from dpd.validation.manifests import validate_manifests
from dpd.validation.templates import validate_templates

__all__ = ["validate_bundle"]


def validate_bundle(folder: Path, environment: Environment, facts: Facts) -> list[Finding]:
    """Validate the templates in ``folder/cdk`` and the manifests in ``folder/manifests``."""
    ignored, findings = load_ignored()
    findings += validate_templates(folder / "cdk", environment.region, facts, ignored)
    findings += validate_manifests(folder / "manifests", environment.kubernetes.version)
    return findings
