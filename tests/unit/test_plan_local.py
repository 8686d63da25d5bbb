"""The plan of this machine: engines and memory, and no cost, quota or node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpd.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(workspace: Any) -> Run:
    """Return ``run("plan", ...)`` on the workspace."""

    def invoke(command: str, *args: str) -> Result:
        where = ["--config-dir", str(workspace.folder)]
        return CliRunner().invoke(main, [command, *where, *args], catch_exceptions=False)

    return invoke


def plan_of(run: Run, *args: str) -> dict[str, Any]:
    result = run("plan", "--env", "local", "--format", "json", *args)
    assert result.exit_code == 0, result.output
    (plan,) = json.loads(result.stdout)["plans"]
    return plan


def test_json_has_the_known_figures(run: Run, workspace: Any) -> None:
    workspace.edit("tiny", {"architecture.dtype": "bfloat16", "workload.input_tokens": 1000})
    plan = plan_of(run)
    (model,) = plan["models"]
    # 4 layers, keys and values of 4 heads of 32 numbers of 2 bytes.
    assert model["kv_bytes_per_token"] == 2048
    assert model["prompt_transfer_bytes"] == 2_048_000
    assert model["kv_cache_tokens"] == 2**30 // 2048
    # 1.6 GB, two bytes for each of 4,458,752 weights, and 1 GiB of KV cache.
    engine_bytes = 1_600_000_000 + 8_917_504 + 2**30
    assert {role["name"]: role["engine_bytes"] for role in model["roles"]} == {
        "prefill": engine_bytes,
        "decode": engine_bytes,
    }
    assert plan["memory_bytes"] == 2 * engine_bytes


def test_json_has_nothing_of_a_cluster(run: Run) -> None:
    plan = plan_of(run)
    assert plan["backend"] == "local"
    assert plan.keys().isdisjoint({"cost", "quotas", "groups", "region", "gpu_subnet"})


def test_memory_counts_every_engine(run: Run, workspace: Any) -> None:
    one = plan_of(run)["memory_bytes"]
    workspace.edit("tiny", {"dpd.prefill.replicas": 2, "dpd.decode.replicas": 2})
    assert plan_of(run)["memory_bytes"] == 2 * one


def test_a_prompt_under_the_threshold_moves_nothing(run: Run, workspace: Any) -> None:
    workspace.edit("tiny", {"workload.input_tokens": 255})
    assert plan_of(run)["models"][0]["prompt_transfer_bytes"] == 0
    assert "255 tokens stays with its decoder" in run("plan", "--env", "local").stdout


def test_colocated_engines_move_nothing(run: Run, workspace: Any) -> None:
    workspace.edit("tiny", {"serving.mode": "colocated", "serving.replicas": 2})
    assert plan_of(run)["models"][0]["prompt_transfer_bytes"] == 0
    text = run("plan", "--env", "local").stdout
    assert "worker: 2 engines" in text
    assert "no KV cache moves" in text


def test_text_says_what_runs_and_what_it_takes(run: Run, workspace: Any) -> None:
    workspace.edit("tiny", {"architecture.dtype": "bfloat16"})
    workspace.edit("local", {"local": {"router_port": 8080, "memory_reserve": "2GiB"}})
    text = run("plan", "--env", "local").stdout
    assert "vllm engines, router on port 8080 of 127.0.0.1" in text
    assert "prefill: 1 engine of 2.5 GiB, 8 sequences" in text
    assert "prompts from 256 tokens go through a prefiller; one of 1,024 moves 2MiB" in text
    assert "2 engines take 5.0 GiB of memory; 2GiB must stay free" in text
    assert "USD" not in text
    assert "quota" not in text


def test_memory_of_simulated_engines_is_not_claimed(run: Run, workspace: Any) -> None:
    workspace.edit("local", {"local": {"engine": "simulated"}})
    text = run("plan", "--env", "local").stdout
    assert "simulated engines, router" in text
    assert "2 real engines would take" in text


def test_explain_names_files_and_defaults(run: Run, workspace: Any) -> None:
    rows = {row["key"]: row["origin"] for row in plan_of(run, "--explain")["models"][0]["origins"]}
    assert rows["serving.image"].startswith(f"{workspace.path('tiny')}:")
    assert rows["serving.runtime"] == "default"
    assert "Where the values of tiny-llama come from" in run("plan", "--env", "local", "--explain").stdout


@pytest.mark.parametrize("command", ["synth", "manifests", "mirror"])
def test_what_only_a_cluster_has_is_refused_by_name(run: Run, command: str) -> None:
    result = run(command, "--env", "local")
    assert result.exit_code == 2
    assert "environment `local` runs on this machine" in result.output


@pytest.mark.parametrize(
    ("model", "planned"),
    [("tiny-llama", ["local"]), ("llama-3.3-70b", ["dev", "prod", "staging"])],
)
def test_a_named_model_is_planned_on_the_back_end_that_lists_it(
    run: Run, model: str, planned: list[str]
) -> None:
    result = run("plan", "--format", "json", "--model", model)
    assert sorted(plan["environment"] for plan in json.loads(result.stdout)["plans"]) == planned


def test_a_model_that_nobody_lists_is_tried_on_hyperpod(run: Run, workspace: Any) -> None:
    workspace.edit("local", {"models": []})
    result = run("check", "--format", "json", "--model", "tiny-llama")
    files = {finding["file"] for finding in json.loads(result.stdout)["findings"]}
    assert str(workspace.path("local")) not in files
    assert result.exit_code == 1
