"""The advice compares layouts on the same GPUs, and its numbers agree with simulated and published ones."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.sizing.advice import Advice, advise
from dpd.sizing.load import prefillers, transferred_per_second
from dpd.spec.deployment import Deployment, build_deployment


def deployment_of(workspace: Any, facts: Facts, model: str = "llama-3.3-70b", **edits: object) -> Deployment:
    names = {"llama-3.3-70b": "llama", "gpt-oss-120b": "gpt", "llama-3.1-405b": "llama405"}
    workspace.edit(names[model], edits)
    catalog = workspace.load()
    loaded, findings = catalog.effective("dev", model)
    assert findings == []
    return build_deployment(catalog.environments["dev"].value, loaded.value, facts)


def advice_of(workspace: Any, facts: Facts, model: str = "llama-3.3-70b", **edits: object) -> Advice:
    return advise(deployment_of(workspace, facts, model, **edits), facts)


# Simulated step by step for Llama 70B on H100 at 4,096 in and 256 out: concurrency, prefillers and
# decoders; requests per second of the colocated layout; its TPOT in ms.
SIMULATED = [(8, 1, 1, 2.40, 11.7), (16, 1, 1, 3.91, 14.2), (32, 1, 1, 5.76, 19.1), (32, 2, 1, 7.03, 16.6)]


@pytest.mark.parametrize(("concurrency", "prefill", "decode", "rate", "tpot_ms"), SIMULATED)
def test_colocated_tpot_agrees_with_the_simulation(
    workspace: Any, facts: Facts, concurrency: int, prefill: int, decode: int, rate: float, tpot_ms: float
) -> None:
    workload = {"input_tokens": 4096, "output_tokens": 256, "requests_per_second": rate}
    layout = advice_of(
        workspace,
        facts,
        **{
            "workload": workload | {"concurrency": concurrency},
            "dpd.prefill.replicas": prefill,
            "dpd.decode.replicas": decode,
        },
    ).colocated
    assert layout is not None
    assert layout.replicas == prefill + decode
    assert layout.latency.tpot_s is not None
    assert layout.latency.tpot_s * 1e3 == pytest.approx(tpot_ms, rel=0.12)


def test_a_decoder_alone_keeps_its_step_at_the_workloads_concurrency(workspace: Any, facts: Facts) -> None:
    found = advice_of(
        workspace, facts, **{"workload.input_tokens": 4096, "workload.concurrency": 16}
    ).configured
    assert found is not None
    assert found.tpot_s == found.itl_p99_s
    assert (found.tpot_s or 0) * 1e3 == pytest.approx(11.4, rel=0.05)


def test_heavy_prefill_that_breaks_the_objective_is_disaggregated(workspace: Any, facts: Facts) -> None:
    found = advice_of(workspace, facts)
    assert found.verdict == "disaggregate"
    assert found.colocated is not None
    assert found.colocated.prefill_duty > 0.2
    assert (found.colocated.latency.itl_p99_s or 0) * 1e3 > 50
    assert "22% of 2 colocated replicas" in found.reason
    assert found.mean_error == 0.1


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({"workload.input_tokens": 1000}, "keep the ITL objective"),
        ({"workload.slo": {"itl_p99_ms": 400}}, "keep the ITL objective"),
        (
            {"workload.input_tokens": 4000, "workload.concurrency": 32},
            "18% of 2 colocated replicas; below 20%",
        ),
    ],
    ids=str,
)
def test_otherwise_colocated_replicas_do(
    workspace: Any, facts: Facts, edits: dict[str, object], says: str
) -> None:
    found = advice_of(workspace, facts, **edits)
    assert found.verdict == "colocate"
    assert says in found.reason


def test_a_mixture_of_experts_gets_no_numbers(workspace: Any, facts: Facts) -> None:
    found = advice_of(workspace, facts, "gpt-oss-120b")
    assert found == Advice("unknown", "mixtures of experts are not covered by the step-time formula")


def test_no_error_is_claimed_for_quantised_weights(workspace: Any, facts: Facts) -> None:
    assert advice_of(workspace, facts, "llama-3.1-405b").mean_error is None


def test_colocated_replicas_that_cannot_keep_up_have_no_latency(workspace: Any, facts: Facts) -> None:
    found = advice_of(workspace, facts, **{"workload.requests_per_second": 20}).colocated
    assert found is not None
    assert found.prefill_duty > 1
    assert (found.latency.tpot_s, found.latency.itl_p99_s) == (None, None)


def test_the_threshold_is_what_a_decoder_prefills_within_the_objective(workspace: Any, facts: Facts) -> None:
    # Simulated: about 1,050 tokens at an ITL p99 of 50 ms.
    assert advice_of(workspace, facts).threshold_tokens == 1024
    looser = advice_of(workspace, facts, **{"workload.slo": {"itl_p99_ms": 100}}).threshold_tokens
    assert looser is not None
    assert looser > 1024
    assert advice_of(workspace, facts, **{"workload.slo": {"itl_p99_ms": 10}}).threshold_tokens is None


def test_prefillers_are_busy_by_rate_and_service_time(workspace: Any, facts: Facts) -> None:
    # 4,096 tokens take 170 ms on H100, so one prefiller serves 5.9 a second at most.
    edits = {"workload.input_tokens": 4096, "workload.requests_per_second": 5.9}
    pool = prefillers(deployment_of(workspace, facts, **edits), facts)
    assert pool is not None
    assert pool.service_s == pytest.approx(0.170, rel=0.1)
    assert pool.utilization == pytest.approx(1, rel=0.1)
    assert pool.needed == 2
    more = prefillers(deployment_of(workspace, facts, **{"dpd.prefill.replicas": 2}), facts)
    assert more is not None
    assert more.utilization == pytest.approx(pool.utilization / 2)


def test_prefillers_that_may_scale_out_count_as_scaled_out(workspace: Any, facts: Facts) -> None:
    pool = prefillers(deployment_of(workspace, facts, **{"autoscaling.prefill": {"min": 1, "max": 3}}), facts)
    assert pool is not None
    assert pool.replicas == 3


def test_eager_mode_costs_what_was_fitted_to_awss_figures(workspace: Any, facts: Facts) -> None:
    # At 4,096 tokens AWS's ranges fit 3.8 prompts per second.
    edits = {"workload.input_tokens": 4096, "dpd.prefill.args": ["--enforce-eager"]}
    pool = prefillers(deployment_of(workspace, facts, **edits), facts)
    assert pool is not None
    assert 1 / pool.service_s == pytest.approx(3.8, rel=0.1)


def test_prompts_under_the_threshold_never_reach_a_prefiller(workspace: Any, facts: Facts) -> None:
    deployment = deployment_of(workspace, facts, **{"workload.input_tokens": 2000})
    pool = prefillers(deployment, facts)
    assert pool is not None
    assert pool.utilization == 0
    assert transferred_per_second(deployment, facts) == 0
    configured = advise(deployment, facts).configured
    assert configured is not None
    assert (configured.itl_p99_s or 0) > 0.05, "the decoder prefills them"


def test_the_buffer_receives_no_more_than_prefillers_deliver(workspace: Any, facts: Facts) -> None:
    assert transferred_per_second(deployment_of(workspace, facts), facts) == 2
    flooded = deployment_of(workspace, facts, **{"workload.requests_per_second": 400})
    assert transferred_per_second(flooded, facts) == pytest.approx(4.5, rel=0.02)
    assert transferred_per_second(deployment_of(workspace, facts, "gpt-oss-120b"), facts) == 4


def test_a_colocated_model_is_compared_with_itself(workspace: Any, facts: Facts) -> None:
    found = advice_of(workspace, facts, **{"serving.mode": "colocated", "serving.replicas": 2})
    assert found.prefillers is None
    assert found.colocated is not None
    assert found.configured == found.colocated.latency
