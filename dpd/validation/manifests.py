"""Validate manifests: the operator's definition, Kubernetes' schemas, and what hides devices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, cast

import yaml

from dpd.crd import CrdSchema, load_crd, validate_builtin, validate_manifest
from dpd.finding import Finding, Severity
from dpd.yaml_file import Path_, dotted

# The operator's definition is AWS's to publish; `kubectl get crd ... -o yaml` on a cluster gives it.
CRD_VARIABLE = "DPD_CRD"
_EFA_DEVICES = PurePosixPath("/dev/infiniband")


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
    for place, path in mounts_over_devices(manifest):
        message = f"hostPath {path} covers the EFA devices that the device plugin mounts"
        yield Finding("EFA004", Severity.ERROR, place, message, path, fix="remove the volume", file=str(file))


def _covers_devices(path: str) -> bool:
    normal = PurePosixPath(normpath("/" + path.lstrip("/")))
    return normal == _EFA_DEVICES.parent or normal.is_relative_to(_EFA_DEVICES)


def mounts_over_devices(node: object, place: Path_ = ()) -> Iterator[tuple[str, str]]:
    """Yield the place and path of each hostPath volume over /dev/infiniband, wherever it stands."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(node, dict):
        mapping = cast("dict[str, object]", node)
        items = mapping.items()
        host = mapping.get("hostPath")
        path = str(cast("dict[str, object]", host).get("path", "")) if isinstance(host, dict) else ""
        if path and _covers_devices(path):
            yield dotted((*place, "hostPath")), path
    elif isinstance(node, list):
        items = enumerate(cast("list[object]", node))
    for key, value in items:
        yield from mounts_over_devices(value, (*place, key))
