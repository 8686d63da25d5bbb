"""The plan holds the sizes, prices and quotas of an environment, and where each value came from."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from dpd.facts import Facts
from dpd.plan import Plan, build_plan, to_json
from dpd.plan_origins import explain_values
from dpd.plan_text import print_plan
from dpd.rules import check
from dpd.spec.catalog import COMMAND_LINE, Catalog


def plan_of(catalog: Catalog, facts: Facts, name: str = "dev", models: list[str] | None = None) -> Plan:
    environment = catalog.environments[name].value
    assert environment is not None
    chosen = list(environment.models) if models is None else models
    return build_plan(catalog, facts, environment, chosen, check(catalog, [name], models))


def text_of(plan: Plan, *, explain: bool = False) -> str:
    out = io.StringIO()
    print_plan(plan, Console(file=out, width=160, highlight=False), explain=explain)
    return out.getvalue()


def test_json_has_units_in_its_keys_and_the_known_figures(workspace: Any, facts: Facts) -> None:
    workspace.edit("llama", {"workload.input_tokens": 6000})
    plan = plan_of(workspace.load(), facts)
    data: Any = json.loads(json.dumps(to_json(plan, explain=False), allow_nan=False))
    assert (data["environment"], data["region"], data["gpu_zone_id"]) == ("dev", "us-west-2", "usw2-az1")
    (model,) = data["models"]
    buffer = model["pd_buffer"]
    assert buffer["buffer_bytes_per_rank"] == 8_589_934_592
    assert buffer["kv_bytes_per_token_per_rank"] == 40_960
    assert buffer["page_bytes"] == 10_485_760
    assert buffer["prompts_of_workload"] == 34
    # 6,000 tokens at 400 Gbit/s per GPU.
    assert model["kv_transfer_at_line_rate_ms"] == pytest.approx(4.915, rel=0.001)
    assert {role["name"]: role["gpus_per_replica"] for role in model["roles"]} == {"prefill": 8, "decode": 8}
    assert model["roles"][0]["gpu_memory"]["total_bytes"] == 80 * 2**30
    assert "origins" not in model


def test_quotas_count_every_node_once(catalog: Catalog, facts: Facts) -> None:
    needs = {need.name: need.needed for need in plan_of(catalog, facts, "prod").quotas}
    assert needs["ml.p5.48xlarge for cluster usage"] == 4
    assert needs["ml.c5.4xlarge for cluster usage"] == 3
    assert needs["Maximum number instances allowed per SageMaker HyperPod cluster"] == 7
    assert needs["Total number of instances allowed across SageMaker HyperPod clusters"] == 7
    assert not any("Spot" in name or "spot" in name for name in needs)


def test_a_type_without_a_quota_row_is_still_asked_for(workspace: Any, facts: Facts) -> None:
    workspace.edit("dev", {"hyperpod.groups.system.instance_type": "ml.new.type"})
    quotas = plan_of(workspace.load(), facts).quotas
    (need,) = [need for need in quotas if need.name == "ml.new.type for cluster usage"]
    assert (need.needed, need.default) == (2, None)


def test_text_shows_topology_memory_buffer_cost_and_quotas(workspace: Any, facts: Facts) -> None:
    workspace.edit("llama", {"workload.input_tokens": 6000})
    text = text_of(plan_of(workspace.load(), facts))
    for part in (
        "us-west-2, GPU zone usw2-az1, Kubernetes 1.34",
        "ml.p5.48xlarge",
        "(per GPU)",
        "40,960 bytes per token and rank, pages of 256 tokens (10MiB)",
        "34 prompts of 6,000 tokens",
        "takes 4.9 ms at line rate",
        "USD per month",
        "ml.p5.48xlarge for cluster usage",
    ):
        assert part in text


def test_a_colocated_model_has_no_buffer_and_no_transfer(workspace: Any, facts: Facts) -> None:
    workspace.edit("llama", {"serving.mode": "colocated"})
    (model,) = plan_of(workspace.load(), facts).models
    assert (model.buffer, model.transfers) == (None, ())
    assert list(model.memory) == ["worker"]


@pytest.mark.parametrize("name", ["nowhere", "llama-3.3-70b"])
def test_a_model_that_cannot_be_planned_is_left_out(workspace: Any, facts: Facts, name: str) -> None:
    workspace.edit("dev", {"models": [name]})
    workspace.edit("llama", {"serving.tensor_parallel": "many"})
    plan = plan_of(workspace.load(), facts)
    assert plan.models == ()
    assert plan.findings
    text_of(plan)


@pytest.mark.parametrize(
    "dev",
    [
        {"hyperpod.groups.decode.instance_type": "ml.unknown"},
        {"hyperpod.groups.decode.instance_type": "ml.c5.4xlarge"},
        {"hyperpod.groups.prefill.count": 0, "hyperpod.groups.decode.count": 0},
        {"region": "nowhere-1"},
        {"operator": {}},
    ],
    ids=str,
)
def test_a_wrong_environment_is_still_planned(workspace: Any, facts: Facts, dev: dict[str, Any]) -> None:
    workspace.edit("dev", dev)
    plan = plan_of(workspace.load(), facts)
    assert "Quotas to ask for" in text_of(plan, explain=True)
    json.dumps(to_json(plan, explain=True), allow_nan=False)


def test_origins_name_file_and_line_override_command_line_and_default(workspace: Any, facts: Facts) -> None:
    path = workspace.path("dev")
    path.write_text(
        path.read_text() + "overrides:\n  llama-3.3-70b:\n    dpd: {prefill: {max_num_seqs: 8}}\n"
    )
    loaded = workspace.load(["workload={concurrency: 4}", "dpd.pd_buffer=16GiB"])
    plan = plan_of(loaded, facts)
    (planned,) = plan.models
    found = explain_values(planned.deployment.model, planned.merged)
    rows = {row["key"]: (row["value"], row["origin"]) for row in found}
    line = len(path.read_text().splitlines())
    assert rows["dpd.prefill.max_num_seqs"] == ("8", f"{path}:{line}")
    assert rows["dpd.pd_buffer"] == ("16GiB", COMMAND_LINE)
    assert rows["workload.concurrency"] == ("4", COMMAND_LINE)
    assert rows["workload.slo.ttft_p99_ms"][1].startswith(str(workspace.path("llama")) + ":")
    assert rows["serving.max_num_seqs"] == ("64", "default")
    assert rows["dpd.environment"] == ("{}", "default")
    text = text_of(plan, explain=True)
    assert "dpd.pd_buffer" in text
    assert COMMAND_LINE in text


def test_advice_says_why_a_mixture_of_experts_uses_nixl(catalog: Catalog, facts: Facts) -> None:
    text = text_of(plan_of(catalog, facts, models=["gpt-oss-120b"]))
    assert "nixl transport: LMCache's is not validated for mixtures of experts (WRK004)" in text
    assert "cannot deploy (OPR011)" in text
    assert "nixl" not in text_of(plan_of(catalog, facts)).partition("Advice")[2]
