"""The plan's advice in sentences: one block, 80 columns, numbers that the model's plan holds."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dpd.plan import build_plan
from dpd.plan_text import print_plan


def text_of(workspace: Any, model: str = "llama-3.3-70b", **files: dict[str, object]) -> str:
    for name, edits in files.items():
        workspace.edit(name, edits)
    catalog = workspace.load()
    plan = build_plan(catalog, catalog.facts, catalog.environments["dev"].value, [model], [])
    out = io.StringIO()
    print_plan(plan, Console(file=out, width=80, highlight=False), explain=False)
    return out.getvalue()


def advice_of(text: str) -> str:
    """Return the advice on one line, however it is folded."""
    return " ".join(text.partition("Advice")[2].split())


@pytest.mark.parametrize(
    "model", ["llama-3.3-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b", "gpt-oss-120b"]
)
def test_one_screen_of_80_columns(workspace: Any, model: str) -> None:
    lines = text_of(workspace, model).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 50
    assert sum(line.startswith("Advice") for line in lines) == 1


def test_both_layouts_stand_beside_their_objective(workspace: Any) -> None:
    said = advice_of(text_of(workspace))
    assert "disaggregate: prefill takes 22% of 2 colocated replicas" in said
    assert "as configured: TPOT 11.7 ms, ITL p99 12 ms (+-10%); ITL objective 50 ms" in said
    assert "2 colocated, same GPUs: TPOT 13.4 ms, ITL p99 223 ms" in said
    assert "prefillers 44% busy, 222 ms a prompt; 1 of 1 needed to stay below 70%" in said
    assert "routing threshold 1,024, not 4,096" in said
    assert "2GiB holds the workload and one longest prompt; yours absorbs 20 s of decoder stall" in said


def test_a_mixture_of_experts_gets_a_reason_and_no_numbers(workspace: Any) -> None:
    said = advice_of(text_of(workspace, "gpt-oss-120b"))
    assert "no advice on disaggregation: mixtures of experts are not covered" in said
    assert "TPOT" not in said
    assert "18 of 36 layers have a sliding window; they count in full" in said


def test_no_error_band_is_claimed_for_quantised_weights(workspace: Any) -> None:
    assert "error not known: quantised weights" in advice_of(text_of(workspace, "llama-3.1-405b"))


@pytest.mark.parametrize(
    ("llama", "says"),
    [
        ({"workload.requests_per_second": 20}, "cannot keep up with the rate"),
        ({"workload.input_tokens": 3000}, "so prefillers stay idle"),
        ({"workload.slo": {"itl_p99_ms": 5}}, "routing threshold 0: any prompt"),
        ({"dpd.decode.max_num_seqs": 512}, "decode: KV room for 214 sequences of the workload"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(workspace: Any, llama: dict[str, object], says: str) -> None:
    assert says in advice_of(text_of(workspace, llama=llama))


def test_a_budget_that_differs_between_roles_is_drawn_twice(workspace: Any) -> None:
    args = {"dpd.prefill.args": ["--max-num-batched-tokens", "32768"]}
    assert "GPU memory, prefill and decode (per GPU)" in text_of(workspace)
    text = text_of(workspace, llama=args)
    assert "GPU memory, prefill (per GPU)" in text
    assert "GPU memory, decode (per GPU)" in text
