"""No valid configuration makes the rules fail, and equal input gives equal findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpd.finding import Finding

MODEL = "llama-3.3-70b"
Findings = Callable[..., list[Finding]]

words = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
sizes = st.integers(0, 200).map(lambda count: f"{count}GiB")
arguments = st.lists(
    st.one_of(
        st.sampled_from(
            ["--enforce-eager", "-tp", "4", "-tp=0", "-O3", "--max-model-len", "auto", "8k", "-1", "x"]
        ),
        st.text(max_size=8),
    ),
    max_size=4,
)
roles = st.fixed_dictionaries(
    {"max_num_seqs": st.integers(1, 64), "replicas": st.integers(1, 5), "args": arguments},
    optional={"node_selector": st.dictionaries(words, words, max_size=2)},
)
models = st.fixed_dictionaries(
    {
        "name": st.just(MODEL),
        "huggingface_id": words,
        "weights": st.just({"source": "huggingface"}),
        "architecture": st.fixed_dictionaries(
            {
                "parameters": st.floats(1e6, 1e15),
                "layers": st.integers(1, 200),
                "hidden_size": st.integers(1, 10**9),
                "attention_heads": st.sampled_from([8, 64, 128, 10**9]),
                "kv_heads": st.sampled_from([1, 2, 4, 8]),
                "head_dim": st.integers(1, 512),
                "dtype": st.sampled_from(["bfloat16", "float32"]),
                "moe": st.booleans(),
            }
        ),
        "serving": st.fixed_dictionaries(
            {
                "tensor_parallel": st.sampled_from([1, 2, 3, 4, 8, 16, 10**9]),
                "max_model_len": st.one_of(st.integers(1, 200_000), st.just(10**9)),
                "gpu_memory_utilization": st.floats(0.01, 0.99),
                "mode": st.sampled_from(["disaggregated", "colocated"]),
                "runtime": st.sampled_from(["operator", "self_managed"]),
                "image": st.one_of(
                    st.sampled_from(["hyperpod-dlc", "lmcache-v0.4.3", "a@b", ":"]), st.text(max_size=9)
                ),
                "args": arguments,
            }
        ),
        "dpd": st.fixed_dictionaries(
            {
                "transport": st.sampled_from(["lmcache", "nixl"]),
                "prefill": roles,
                "decode": roles,
                "pd_buffer": sizes,
                "l1_cache": st.fixed_dictionaries({"enabled": st.booleans(), "size_per_rank": sizes}),
                "environment": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=2),
            }
        ),
    },
    optional={
        "autoscaling": st.fixed_dictionaries(
            {
                "prefill": st.builds(
                    lambda low, more: {"min": low, "max": low + more}, st.integers(0, 3), st.integers(1, 3)
                )
            }
        ),
        "workload": st.fixed_dictionaries(
            {"requests_per_second": st.floats(1e-6, 1e9), "input_tokens": st.integers(1, 10**9)}
        ),
    },
)
types = st.one_of(
    st.sampled_from(["ml.p5.48xlarge", "ml.p6-b300.48xlarge", "ml.g6e.48xlarge", "ml.c5.4xlarge"]), words
)
groups = st.fixed_dictionaries({"instance_type": types, "count": st.integers(0, 6758)})
environments = st.fixed_dictionaries(
    {
        "name": st.just("dev"),
        "region": st.one_of(st.sampled_from(["us-west-2", "us-east-1", "ca-central-1"]), words),
        "gpu_zone_id": st.sampled_from(["usw2-az1", "use1-az6", "usw2-lax1-az1"]),
        "hyperpod": st.fixed_dictionaries(
            {"groups": st.fixed_dictionaries({"system": groups, "prefill": groups, "decode": groups})}
        ),
        "operator": st.fixed_dictionaries(
            {},
            optional={
                "addon_version": st.one_of(st.sampled_from(["v1.4.0-eksbuild.1", "v1"]), st.text(max_size=9))
            },
        ),
        "models": st.just([MODEL]),
    },
    optional={
        "kubernetes": st.fixed_dictionaries({"version": st.sampled_from(["1.34", "1.99"])}),
        "accept": st.dictionaries(
            words, st.just({"severity": "info", "reason": "because of this"}), max_size=2
        ),
        "addons": st.dictionaries(words, st.text(max_size=9), max_size=2),
    },
)


# Zero is no cache, and sizes come in whole GiB.
local_environments = st.fixed_dictionaries(
    {"name": st.just("dev"), "backend": st.just("local"), "models": st.just([MODEL])},
    optional={
        "local": st.fixed_dictionaries(
            {},
            optional={
                "engine": st.sampled_from(["vllm", "simulated"]),
                "router_port": st.one_of(st.none(), st.integers(1, 65_535)),
                "kv_cache": st.integers(1, 200).map(lambda count: f"{count}GiB"),
                "memory_reserve": sizes,
                "ready_timeout_s": st.floats(0.1, 3600),
            },
        ),
    },
)


@settings(
    derandomize=True,
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(environment=st.one_of(environments, local_environments), model=models)
def test_any_valid_configuration_is_judged_and_twice_alike(
    findings: Findings, environment: dict[str, Any], model: dict[str, Any]
) -> None:
    found = findings(environment, model)
    assert {item.id for item in found}.isdisjoint({"CFG001", "CFG002", "CFG003"}), found
    assert found == findings(environment, model)
    for item in found:
        assert item.text()
        assert item.to_json()
