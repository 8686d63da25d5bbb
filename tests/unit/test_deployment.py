"""One object per model and environment: both roles share what must agree, and each pod fits its node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import (
    MODEL_PATH,
    NIXL_TRANSFER,
    ROLE_LABEL,
    Deployment,
    build_deployment,
)
from dpd.spec.image import resolve_image, vllm_of

Build = Callable[..., Deployment]
LLAMA = "llama-3.3-70b"


@pytest.fixture
def build(catalog: Catalog, facts: Facts, workspace: Any) -> Build:
    """Return ``build(model, {path: value})``: a model of the repository in dev, with edits."""
    short = {LLAMA: "llama", "gpt-oss-120b": "gpt", "qwen3-32b": "qwen3"}

    def run(model: str = LLAMA, edits: dict[str, Any] | None = None) -> Deployment:
        workspace.reset()
        workspace.edit(short[model], edits or {})
        loaded = workspace.load()
        environment, value = loaded.environments["dev"].value, loaded.models[model].value
        assert environment is not None, loaded.findings
        assert value is not None, loaded.findings
        return build_deployment(environment, value, facts)

    return run


def test_both_roles_share_arguments_and_differ_in_their_own(build: Build) -> None:
    deployment = build(edits={"serving.args": ["--seed", "7"], "dpd.prefill.args": ["--enforce-eager"]})
    prefill, decode = deployment.role("prefill"), deployment.role("decode")
    assert prefill.shared_args == decode.shared_args
    assert prefill.shared_args[-2:] == ("--seed", "7")
    assert prefill.args == ("--max-num-seqs", "16", "--no-enable-prefix-caching", "--enforce-eager")
    assert decode.args == ("--max-num-seqs", "32", "--no-enable-prefix-caching")


def test_the_effective_engine_is_what_its_arguments_say(build: Build) -> None:
    engine = build().role("decode").engine
    assert engine.problems == ()
    assert engine.integer("tensor-parallel-size") == 8
    assert engine.integer("max-model-len") == 16384
    assert engine.values["gpu-memory-utilization"] == 0.75
    assert engine.values["enable-prefix-caching"] is False
    assert engine.values["served-model-name"] == LLAMA


def test_the_entry_point_decides_where_the_model_stands(build: Build) -> None:
    assert build().roles[0].shared_args[:2] == ("--model", MODEL_PATH)
    serve = build(edits={"serving.image": "lmcache-v0.4.3"}).roles[0]
    assert serve.shared_args[0] == MODEL_PATH
    assert serve.engine.problems == ()


def test_colocated_is_one_role_with_its_own_prefix_cache(build: Build) -> None:
    deployment = build(edits={"serving.mode": "colocated", "serving.replicas": 1})
    assert [role.name for role in deployment.roles] == ["worker"]
    assert deployment.roles[0].args == ("--max-num-seqs", "64")
    assert "FI_PROVIDER" not in deployment.env
    with pytest.raises(KeyError):
        deployment.role("prefill")


def test_lmcache_gets_its_buffer_and_seed_by_variables(build: Build) -> None:
    env = build(edits={"dpd.environment": {"PYTHONHASHSEED": "7", "EXTRA": "x"}}).env
    assert env["PD_BUFFER_SIZE"] == str(819 * 10 * 2**20), "whole pages of 10 MiB"
    assert env["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "5.0"
    assert env["LMCACHE_SAVE_UNFULL_CHUNK"] == "True"
    assert env["FI_PROVIDER"] == "efa"
    assert (env["PYTHONHASHSEED"], env["EXTRA"]) == ("7", "x"), "the user's variables win"
    assert build().env["PYTHONHASHSEED"] == "0"


def test_nixl_gets_libfabric_on_both_roles_and_no_lmcache(build: Build) -> None:
    deployment = build("gpt-oss-120b")
    for role in deployment.roles:
        text = role.args[role.args.index("--kv-transfer-config") + 1]
        assert json.loads(text) == NIXL_TRANSFER
        assert role.engine.values["kv-transfer-config"] == NIXL_TRANSFER
    assert "PD_BUFFER_SIZE" not in deployment.env
    assert "LMCACHE_MAX_LOCAL_CPU_SIZE" not in deployment.env


@pytest.mark.parametrize(("ranks", "efa", "cpu"), [(8, 32, 96), (4, 16, 48), (1, 4, 12)])
def test_a_pod_takes_its_share_of_the_node(build: Build, ranks: int, efa: int, cpu: int) -> None:
    resources = build(edits={"serving.tensor_parallel": ranks}).role("decode").resources
    assert (resources.gpus, resources.efa_devices, resources.cpu) == (ranks, efa, cpu)


def test_only_prefill_pods_ask_for_the_host_cache(build: Build) -> None:
    deployment = build()
    assert deployment.role("prefill").resources.memory_request_bytes == (128 + 8 * 5) * GIB
    assert deployment.role("decode").resources.memory_request_bytes == 128 * GIB
    without = build(edits={"dpd.l1_cache.enabled": False})
    assert without.role("prefill").resources.memory_request_bytes == 128 * GIB
    for role in deployment.roles:
        assert role.resources.memory_limit_bytes >= role.resources.memory_request_bytes


def test_an_argument_decides_the_gpus_of_its_role_alone(build: Build) -> None:
    deployment = build(edits={"dpd.decode.args": ["-tp", "4"]})
    assert deployment.role("prefill").resources.gpus == 8
    assert deployment.role("decode").resources.gpus == 4


@pytest.mark.parametrize(
    ("args", "tokens"),
    [
        ([], 16384),
        (["--max-model-len=8k"], 8000),
        (["--max-model-len", "auto"], 16384),
        (["--max-model-len", "-1"], 16384),
        (["--max-model-len", "0"], 16384),
    ],
)
def test_the_context_length_is_the_engine_s(build: Build, args: list[str], tokens: int) -> None:
    assert build(edits={"serving.args": args}).max_model_len == tokens


def test_pods_select_their_group_and_the_user_s_labels(build: Build) -> None:
    selector = build(edits={"dpd.decode.node_selector": {"rack": "7"}}).role("decode").node_selector
    assert selector == {ROLE_LABEL: "decode", "rack": "7"}


@pytest.mark.parametrize(
    ("name", "reference", "tag", "digest", "known"),
    [
        (
            "hyperpod-dlc",
            "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1",
            "server-hyperpod-cuda-v1.1",
            None,
            True,
        ),
        ("registry:5000/a/b", "registry:5000/a/b", None, None, False),
        ("a/b:1.0", "a/b:1.0", "1.0", None, False),
        ("a/b@sha256:" + "0" * 64, "a/b@sha256:" + "0" * 64, None, "sha256:" + "0" * 64, False),
        ("a/b:1.0@sha256:0", "a/b:1.0@sha256:0", "1.0", None, False),
        (
            "docker.io/lmcache/vllm-openai:v0.4.3@sha256:" + "a" * 64,
            "docker.io/lmcache/vllm-openai:v0.4.3@sha256:" + "a" * 64,
            "v0.4.3",
            "sha256:" + "a" * 64,
            True,
        ),
    ],
)
def test_image_references(
    facts: Facts, name: str, reference: str, tag: str | None, digest: str | None, known: bool
) -> None:
    image = resolve_image(name, facts)
    assert (image.reference, image.tag, image.digest) == (reference, tag, digest)
    assert (image.fact is not None) == known
    assert (vllm_of(image, facts) is not None) == known


def test_a_development_build_has_the_flags_of_its_release(facts: Facts) -> None:
    image = resolve_image("hyperpod-dlc", facts)
    assert image.fact is not None
    assert image.fact.vllm_version == "0.20.0.dev361"
    assert vllm_of(image, facts) is facts.vllm["0.20.0"]
