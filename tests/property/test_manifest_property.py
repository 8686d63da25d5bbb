"""Whatever valid configuration is rendered, the manifest is valid and both roles agree."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpd.crd import CrdSchema, load_crd, validate_manifest
from dpd.facts import Facts
from dpd.spec.catalog import load_catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.model import Model
from k8s.inference_endpoint_config import InferenceEndpointConfig
from k8s.render import Bindings, Manifest, manifests

ROOT = Path(__file__).parents[2]
CRD = Path(os.environ.get("DPD_CRD", "not given"))

bounded = settings(derandomize=True, max_examples=120, deadline=None)
# Up to 37 characters: the operator's Service adds 26 in the namespace `inference`.
names = st.from_regex(r"[a-z]([a-z0-9.-]{0,35}[a-z0-9])?", fullmatch=True)
variables = st.dictionaries(
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,20}", fullmatch=True), st.text(max_size=40), max_size=4
)
labels = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,5})?/[a-z]{1,10}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True),
    max_size=3,
)
arguments = st.lists(
    st.sampled_from(["--enforce-eager", "--block-size=32", "--kv-cache-dtype=fp8", "--shutdown-timeout=60"]),
    max_size=3,
)
weights = st.one_of(
    st.fixed_dictionaries(
        {
            "source": st.just("s3"),
            "prefix": st.from_regex(
                r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}(/[A-Za-z0-9][A-Za-z0-9._-]{0,9}){0,2}/?", fullmatch=True
            ),
        }
    ),
    st.fixed_dictionaries(
        {"source": st.just("fsx"), "file_system_id": st.from_regex(r"fs-[0-9a-f]{8,17}", fullmatch=True)}
    ),
    st.fixed_dictionaries(
        {
            "source": st.just("huggingface"),
            "token_secret": st.none() | st.just("hf-token"),
            "revision": st.none() | st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
        }
    ),
)
buckets = st.sampled_from(["weights-bucket", "${Token[TOKEN.12]}", "${Token[Weights.Bucket.Name.4]}"])


@cache
def _facts() -> Facts:
    facts = load_catalog(ROOT / "config").facts
    assert facts is not None
    return facts


def _tag_text(least: int) -> st.SearchStrategy[str]:
    return st.text("abcXYZ019 _.:/=+@-", min_size=least, max_size=10)


@st.composite
def _roles(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "replicas": draw(st.integers(1, 8)),
        "max_num_seqs": draw(st.integers(1, 256)),
        "args": draw(arguments),
        "node_selector": draw(labels),
    }


@st.composite
def _ranges(draw: st.DrawFn) -> dict[str, int]:
    low = draw(st.integers(1, 4))
    return {"min": low, "max": low + draw(st.integers(0, 4))}


@st.composite
def _models(draw: st.DrawFn) -> Model:
    name = draw(names)
    return Model.model_validate(
        {
            "name": name,
            "huggingface_id": f"organisation/{name}",
            "weights": draw(weights),
            "architecture": {
                "parameters": 70e9,
                "layers": 80,
                "hidden_size": 8192,
                "attention_heads": 64,
                "kv_heads": 8,
                "head_dim": 128,
            },
            "serving": {
                "mode": draw(st.sampled_from(["disaggregated", "colocated"])),
                "image": draw(
                    st.sampled_from(sorted(_facts().images)) | st.just("mirror.example/vllm:1@sha256:ab")
                ),
                "tensor_parallel": draw(st.sampled_from([1, 2, 4, 8])),
                "max_model_len": draw(st.integers(1024, 131072)),
                "replicas": draw(st.integers(1, 4)),
                "args": draw(arguments),
            },
            "dpd": {
                "transport": draw(st.sampled_from(["lmcache", "nixl"])),
                "prefill": draw(_roles()),
                "decode": draw(_roles()),
                "routing": {
                    "threshold_tokens": draw(st.integers(0, 131072)),
                    "strategy": draw(st.sampled_from(["prefixaware", "kvaware", "session", "roundrobin"])),
                },
                "topology": {
                    "same_zone": draw(st.booleans()),
                    "availability_zone": draw(st.none() | st.just("us-west-2a")),
                    "placement_group": draw(st.none() | st.just("group")),
                },
                "pd_buffer": f"{draw(st.integers(1, 64))}GiB",
                "l1_cache": {
                    "enabled": draw(st.booleans()),
                    "size_per_rank": f"{draw(st.integers(1, 64))}{draw(st.sampled_from(['MiB', 'GiB']))}",
                },
                "environment": draw(variables),
            },
            "autoscaling": {"prefill": draw(_ranges()), "decode": draw(_ranges())},
        }
    )


@st.composite
def _environments(draw: st.DrawFn) -> Environment:
    types = st.sampled_from(_facts().dpd_instance_types())
    url = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123"
    return Environment.model_validate(
        {
            "name": "property",
            "region": "us-west-2",
            "gpu_zone_id": "usw2-az1",
            "hyperpod": {
                "groups": {
                    "system": {"instance_type": "ml.c5.4xlarge", "count": 2},
                    "prefill": {"instance_type": draw(types), "count": 4},
                    "decode": {"instance_type": draw(types), "count": 4},
                }
            },
            "observability": {"enabled": True, "prometheus_url": draw(st.none() | st.just(url))},
            "tags": draw(st.dictionaries(_tag_text(1), _tag_text(0), max_size=3)),
        }
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Draw one resolved deployment."""
    return build_deployment(draw(_environments()), draw(_models()), _facts())


bindings = st.builds(Bindings, buckets, buckets)


def _endpoint(deployment: Deployment, bound: Bindings) -> Manifest:
    return manifests(deployment, bound)[1]


@bounded
@given(deployments(), bindings)
def test_every_manifest_passes_our_schema(deployment: Deployment, bound: Bindings) -> None:
    endpoint = _endpoint(deployment, bound)
    again = InferenceEndpointConfig.model_validate(endpoint)
    assert again.model_dump(mode="json", by_alias=True, exclude_none=True) == endpoint


@pytest.fixture(scope="module")
def crd() -> CrdSchema:
    """Load the operator's CRD, or skip with the reason."""
    if not CRD.is_file():
        pytest.skip("set DPD_CRD to the file of the operator's CRD")
    return load_crd(CRD)


@bounded
@given(deployment=deployments(), bound=bindings)
def test_every_manifest_passes_the_crd(deployment: Deployment, bound: Bindings, crd: CrdSchema) -> None:
    assert validate_manifest(_endpoint(deployment, bound), crd) == []


@bounded
@given(deployments(), bindings)
def test_roles_share_image_variables_and_arguments(deployment: Deployment, bound: Bindings) -> None:
    """A role can add arguments, nodes and resources; it has no field to differ in anything else."""
    spec = cast("dict[str, Any]", _endpoint(deployment, bound)["spec"])
    variables = {item["name"]: item["value"] for item in spec["worker"]["environmentVariables"]}
    assert variables == dict(deployment.env)
    assert spec["worker"]["image"] == deployment.image.reference
    if not deployment.disaggregated:
        assert "pdSpec" not in spec
        return
    keys = {"prefill": "prefillSpec", "decode": "decodingSpec"}
    for role in deployment.roles:
        rendered = spec["pdSpec"][keys[role.name]]
        assert spec["worker"]["args"] == list(role.shared_args)
        assert rendered["args"] == list(role.args)
        assert set(rendered) == {"replicas", "args", "nodeSelector", "resources"}
        assert rendered["resources"]["limits"]["nvidia.com/gpu"] == deployment.model.serving.tensor_parallel
