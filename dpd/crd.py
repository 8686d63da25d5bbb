"""Check manifests as strictly as ``kubectl apply --validate=strict`` would, without a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from dpd.yaml_file import dotted

_loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class CrdSchema:
    """Hold the stored version of one custom resource: its identity and its schema, closed."""

    api_version: str
    kind: str
    schema: Mapping[str, Any]


def load_crd(path: Path) -> CrdSchema:
    """Read a CustomResourceDefinition and close every object that does not keep unknown fields.

    The API server drops unknown fields, or refuses them in strict mode; a plain reading of the
    schema would accept them. Raises OSError, and ValueError for a file that is no such definition.
    """
    try:
        document = _loader(path.read_text(encoding="utf-8")).get_single_data()
        spec = document["spec"]
        version = next(item for item in spec["versions"] if item["storage"])
        schema = version["schema"]["openAPIV3Schema"]
        api_version = f"{spec['group']}/{version['name']}"
        return CrdSchema(api_version, spec["names"]["kind"], _close(schema))
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise ValueError(f"{path}: no CustomResourceDefinition with a stored version: {error!r}") from error


def validate_manifest(manifest: Mapping[str, object], crd: CrdSchema) -> list[str]:
    """Return what is wrong with ``manifest``, one line each with its path; empty when all is well."""
    identity = {"apiVersion": crd.api_version, "kind": crd.kind}
    problems = [
        f"{key}: is {manifest.get(key)!r}, the definition is for {value!r}"
        for key, value in identity.items()
        if manifest.get(key) != value
    ]
    errors = Draft202012Validator(crd.schema).iter_errors(dict[str, Any](manifest))
    return problems + [_text(error) for error in sorted(errors, key=lambda error: list(map(str, error.path)))]


def validate_builtin(manifest: Mapping[str, object], kubernetes_version: str) -> list[str]:
    """Return what is wrong with an object of a built-in kind under, say, Kubernetes ``1.34``.

    At most one line: the schemas stop at the first error. A kind that Kubernetes does not have is
    an error too.
    """
    # The package holds every schema of every release (108 MB), so only this check asks for it.
    import kubernetes_validate as schemas

    try:
        schemas.validate(dict(manifest), kubernetes_version, strict=True)
    except schemas.SchemaNotFoundError:
        kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        return [f"kind: Kubernetes {kubernetes_version} has no built-in {kind}"]
    except schemas.ValidationError as error:
        return [f"{dotted(tuple(error.path)) or 'manifest'}: {error.message}"]
    return []


def _close(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``node`` as JSON Schema with unknown fields refused.

    An object without listed fields, such as metadata, stays open: its schema is the API server's.
    """
    closed = {key: value for key, value in node.items() if key != "description"}
    if "properties" in node:
        closed["properties"] = {name: _close(item) for name, item in node["properties"].items()}
        if not node.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in node:
            closed["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            closed[key] = _close(node[key])
    if node.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    elif node.get("nullable"):
        closed["type"] = [node["type"], "null"]
    return closed


def _text(error: ValidationError) -> str:
    place = dotted(tuple(error.absolute_path)) or "manifest"
    if error.validator != "additionalProperties":
        return f"{place}: {error.message}"
    known = sorted(cast("dict[str, Any]", error.schema)["properties"])
    unknown = sorted(set(cast("dict[str, Any]", error.instance)) - set(known))
    return "; ".join(f"{place}: unknown field `{name}`{_near(name, known)}" for name in unknown)


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""
