"""Validate manifests against the operator's definition, where present, and Kubernetes' own schemas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from dpd.crd import CrdSchema, load_crd, validate_builtin, validate_manifest
from dpd.finding import Finding, Severity

# The operator's definition is AWS's to publish; `kubectl get crd ... -o yaml` on a cluster gives it.
CRD_VARIABLE = "DPD_CRD"


def crd_path() -> Path | None:
    """Return the file of the operator's CustomResourceDefinition that ``DPD_CRD`` names."""
    named = os.environ.get(CRD_VARIABLE)
    return Path(named) if named else None


def validate_manifests(folder: Path, kubernetes_version: str) -> list[Finding]:
    """Validate every object below ``folder``; without a definition that half is an info finding."""
    findings: list[Finding] = []
    path = crd_path()
    crd = load_crd(path) if path else None
    if crd is None:
        message = f"the operator's definition was not checked: set {CRD_VARIABLE} to its file"
        fix = "kubectl get crd inferenceendpointconfigs.inference.sagemaker.aws.amazon.com -o yaml > crd.yaml"
        findings.append(Finding("VAL004", Severity.INFO, "", message, fix=fix))
    for file in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            findings += _document(cast("dict[str, Any]", document), file, kubernetes_version, crd)
    return findings


def _document(
    manifest: Mapping[str, Any], file: Path, kubernetes_version: str, crd: CrdSchema | None
) -> Iterable[Finding]:
    kind = str(manifest["kind"])
    custom = "." in str(manifest["apiVersion"]).partition("/")[0] and not str(manifest["apiVersion"]).split(
        "/"
    )[0].endswith(".k8s.io")
    if custom:
        problems, id = (validate_manifest(manifest, crd) if crd else []), "VAL004"
    else:
        problems, id = validate_builtin(manifest, kubernetes_version), "VAL005"
    for problem in problems:
        yield Finding(id, Severity.ERROR, kind, problem, file=str(file))
