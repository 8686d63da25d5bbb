"""Our manifests and our schema hold against the operator's real CRD.

The CRD is AWS's and is not part of this repository: put the path of
``inferenceendpointconfigs.yaml`` (aws/sagemaker-hyperpod-cli, chart of the inference operator) into
``DPD_CRD``. Without it the tests that need it are skipped; the others still run.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dpd.crd import CrdSchema, load_crd, validate_builtin, validate_manifest
from dpd.spec.catalog import load_catalog
from dpd.spec.deployment import Deployment, build_deployment
from k8s.inference_endpoint_config import InferenceEndpointConfig
from k8s.render import Bindings, endpoint_manifest, namespace_manifest

ROOT = Path(__file__).parents[2]
CRD = Path(os.environ.get("DPD_CRD", "not given"))
BINDINGS = Bindings("weights-bucket", "hyperpod-tls-bucket")

Node = Mapping[str, Any]


def _deployments() -> Iterator[Deployment]:
    catalog = load_catalog(ROOT / "config")
    assert catalog.facts is not None
    for name, loaded in catalog.environments.items():
        if loaded.value is None or loaded.value.backend == "local":
            continue
        for model_name in loaded.value.models:
            model = catalog.effective(name, model_name)[0].value
            assert model is not None
            if model.serving.runtime == "operator":
                yield build_deployment(loaded.value, model, catalog.facts)


DEPLOYMENTS = {f"{item.environment.name}-{item.model.name}": item for item in _deployments()}


@pytest.fixture(scope="module")
def crd() -> CrdSchema:
    """Load the operator's CRD, or skip with the reason."""
    if not CRD.is_file():
        pytest.skip("set DPD_CRD to the file of the operator's CRD")
    return load_crd(CRD)


@pytest.fixture
def manifest() -> dict[str, Any]:
    """Return the endpoint of the dev environment, free to be broken."""
    deployment = next(item for item in DEPLOYMENTS.values() if item.environment.name == "dev")
    return copy.deepcopy(endpoint_manifest(deployment, BINDINGS))


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_configured_endpoint_passes_the_crd(name: str, crd: CrdSchema) -> None:
    assert validate_manifest(endpoint_manifest(DEPLOYMENTS[name], BINDINGS), crd) == []


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_namespace_is_valid_in_the_configured_kubernetes(name: str) -> None:
    version = DEPLOYMENTS[name].environment.kubernetes.version
    assert validate_builtin(namespace_manifest(), version) == []


def _rename_role(spec: dict[str, Any]) -> None:
    spec["pdSpec"]["decodeSpec"] = spec["pdSpec"].pop("decodingSpec")


def _no_replicas(spec: dict[str, Any]) -> None:
    spec["pdSpec"]["prefillSpec"]["replicas"] = 0


def _negative_threshold(spec: dict[str, Any]) -> None:
    spec["pdSpec"]["routingThreshold"] = -1


def _unknown_field(spec: dict[str, Any]) -> None:
    spec["worker"]["tolerations"] = []


def _wrong_strategy(spec: dict[str, Any]) -> None:
    spec["intelligentRoutingSpec"]["routingStrategy"] = "prefix-aware"


def _wrong_source(spec: dict[str, Any]) -> None:
    spec["modelSourceConfig"]["modelSourceType"] = "S3"


def _text_port(spec: dict[str, Any]) -> None:
    spec["worker"]["modelInvocationPort"]["containerPort"] = "8000"


def _no_resources(spec: dict[str, Any]) -> None:
    del spec["worker"]["resources"]


def _decimal_memory(spec: dict[str, Any]) -> None:
    spec["pdSpec"]["prefillSpec"]["resources"]["limits"]["memory"] = "64GiB"


BREAKAGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "decodeSpec": (
        _rename_role,
        r"spec\.pdSpec: unknown field `decodeSpec` \(did you mean `decodingSpec`\?\)",
    ),
    "replicas-0": (_no_replicas, r"spec\.pdSpec\.prefillSpec\.replicas: 0 is less than the minimum"),
    "threshold-negative": (
        _negative_threshold,
        r"spec\.pdSpec\.routingThreshold: -1 is less than the minimum",
    ),
    "unknown-field": (_unknown_field, r"spec\.worker: unknown field `tolerations`"),
    "wrong-strategy": (_wrong_strategy, r"routingStrategy: 'prefix-aware' is not one of"),
    "wrong-source": (_wrong_source, r"modelSourceType: 'S3' is not one of"),
    "text-port": (_text_port, r"containerPort: '8000' is not of type 'integer'"),
    "no-resources": (_no_resources, r"spec\.worker: 'resources' is a required property"),
    "decimal-memory": (_decimal_memory, r"prefillSpec\.resources\.limits\.memory: '64GiB' does not match"),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_crd_refuses(name: str, manifest: dict[str, Any], crd: CrdSchema) -> None:
    damage, message = BREAKAGES[name]
    damage(manifest["spec"])
    assert re.search(message, "\n".join(validate_manifest(manifest, crd)))


@pytest.mark.parametrize("name", BREAKAGES)
def test_our_schema_refuses_what_the_crd_refuses(name: str, manifest: dict[str, Any]) -> None:
    InferenceEndpointConfig.model_validate(manifest)
    BREAKAGES[name][0](manifest["spec"])
    with pytest.raises(ValidationError):
        InferenceEndpointConfig.model_validate(manifest)


def test_crd_of_another_kind_is_named(manifest: dict[str, Any], crd: CrdSchema) -> None:
    problems = validate_manifest({**manifest, "apiVersion": "example.com/v1"}, crd)
    assert problems[0].startswith("apiVersion: is 'example.com/v1'")


def test_our_schema_is_at_least_as_strict_as_the_crd(crd: CrdSchema) -> None:
    assert _pairs(crd)
    assert [text for path, ours, theirs in _pairs(crd) for text in _looser(path, ours, theirs)] == []


@settings(derandomize=True, max_examples=25, deadline=None)
@given(data=st.data())
def test_what_our_patterns_admit_the_crd_admits(data: st.DataObject, crd: CrdSchema) -> None:
    for path, ours, theirs in _pairs(crd):
        if theirs is None or "pattern" not in theirs:
            continue
        for admitted in _admitted(ours, data):
            assert re.search(theirs["pattern"], admitted), f"{path}: we admit {admitted!r}"


def _admitted(ours: Node, data: st.DataObject) -> list[str]:
    """Return texts that our schema admits: every value of an enumeration, one draw of a pattern."""
    if "enum" in ours:
        return list(ours["enum"])
    branches = [item for item in ours.get("anyOf", [ours]) if item.get("type") == "string"]
    return [data.draw(_texts(item)) for item in branches]


def _texts(ours: Node) -> st.SearchStrategy[str]:
    assert "pattern" in ours, f"the CRD has a pattern where we have none: {ours}"
    whole = ours["pattern"].removeprefix("^").removesuffix("$")
    limit = ours.get("maxLength", float("inf"))
    return st.from_regex(f"(?:{whole})", fullmatch=True).filter(lambda text: len(text) <= limit)


def _looser(path: str, ours: Node, theirs: Node | None) -> list[str]:
    """Return in which ways our schema of one field admits more than the CRD's."""
    if theirs is None:
        return [f"{path}: the CRD has no such field"]
    found: list[str] = []
    if "enum" in theirs and sorted(ours.get("enum", [])) != sorted(theirs["enum"]):
        found.append(f"{path}: enum {ours.get('enum')} against {theirs['enum']}")
    missing = set(theirs.get("required", [])) - set(ours.get("required", []))
    found += [f"{path}.{name}: required by the CRD, optional here" for name in sorted(missing)]
    for low in ("minimum", "minLength", "minItems"):
        if low in theirs and ours.get(low, float("-inf")) < theirs[low]:
            found.append(f"{path}: {low} {ours.get(low)} under {theirs[low]}")
    for high in ("maximum", "maxLength", "maxItems"):
        if high in theirs and not _fits(ours, high, theirs[high]):
            found.append(f"{path}: {high} over {theirs[high]}")
    kinds = {item["type"] for item in ours.get("anyOf", [ours])}
    if not kinds <= set([theirs["type"]] if isinstance(theirs["type"], str) else theirs["type"]):
        found.append(f"{path}: type {sorted(kinds)} against {theirs['type']}")
    return found


def _fits(ours: Node, key: str, limit: int) -> bool:
    if key == "maxLength" and "pattern" in ours and "maxLength" not in ours:
        pattern = re.compile(ours["pattern"])
        return not any(pattern.fullmatch(letter * (limit + 1)) for letter in "a0")
    return ours.get(key, float("inf")) <= limit


def _pairs(crd: CrdSchema) -> list[tuple[str, Node, Node | None]]:
    """Return every field of our schema beside the CRD's; metadata belongs to Kubernetes itself."""
    schema = InferenceEndpointConfig.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    pairs: list[tuple[str, Node, Node | None]] = []

    def resolve(node: Node) -> Node:
        branches = [item for item in node.get("anyOf", []) if item.get("type") != "null"]
        if len(branches) == 1:
            return resolve(branches[0])
        if "$ref" in node:
            return cast("Node", definitions[node["$ref"].rpartition("/")[2]])
        return {**node, "enum": [node["const"]]} if "const" in node else node

    def walk(path: str, ours: Node, theirs: Node | None) -> None:
        node = resolve(ours)
        pairs.append((path, node, theirs))
        below = theirs or {}
        for name, child in node.get("properties", {}).items():
            walk(f"{path}.{name}", child, below.get("properties", {}).get(name))
        for key in ("items", "additionalProperties"):
            if isinstance(node.get(key), dict):
                walk(f"{path}[]", node[key], below.get(key))

    walk("spec", schema["properties"]["spec"], crd.schema["properties"]["spec"])
    return pairs
