"""Arguments are read as vLLM reads them, and what vLLM would refuse is a problem at its place."""

from __future__ import annotations

import pytest

from dpd.facts import Facts
from dpd.spec.engine_args import AUTO, EngineArgs, parse_engine_args


@pytest.fixture(params=["0.19.0", "0.20.0", "0.27.0", "0.32.0"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def parse(facts: Facts, *args: str, release: str = "0.19.0") -> EngineArgs:
    return parse_engine_args(args, facts.vllm[release])


@pytest.mark.parametrize(
    "args",
    [
        ["-tp", "4"],
        ["-tp=4"],
        ["--tensor-parallel-size", "4"],
        ["--tensor-parallel-size=4"],
        ["--tensor_parallel_size", "4"],
        ["--tensor_parallel_size=4"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_tensor_parallel(facts: Facts, args: list[str], release: str) -> None:
    engine = parse(facts, *args, release=release)
    assert engine.integer("tensor-parallel-size") == 4
    assert engine.problems == ()


@pytest.mark.parametrize(
    ("args", "flag", "value"),
    [
        (["--enable-prefix-caching"], "enable-prefix-caching", True),
        (["--no-enable-prefix-caching"], "enable-prefix-caching", False),
        (["--no_enable_prefix_caching"], "enable-prefix-caching", False),
        (["--enforce-eager", "--port", "1"], "enforce-eager", True),
        (["--headless"], "headless", True),
        (["--disable-log-stats"], "disable-log-stats", True),
        (["--max-model-len", "16k"], "max-model-len", 16_000),
        (["--max-model-len", "16K"], "max-model-len", 16_384),
        (["--max-model-len", "25.6k"], "max-model-len", 25_600),
        (["--max-model-len", "auto"], "max-model-len", AUTO),
        (["--max-model-len", "-1"], "max-model-len", AUTO),
        (["--max-model-len=-1"], "max-model-len", AUTO),
        (["--max-num-batched-tokens", "1M"], "max-num-batched-tokens", 1_048_576),
        (["--gpu-memory-utilization=0.5"], "gpu-memory-utilization", 0.5),
        (["--seed", "-5"], "seed", -5),
        (["-O3"], "optimization-level", "3"),
        (["-O=3"], "optimization-level", "3"),
        (["-O", "3"], "optimization-level", "3"),
        (["-q", "fp8"], "quantization", "fp8"),
        (["-cc.mode=3"], "compilation-config", {"mode": 3}),
        (["--hf-token"], "hf-token", True),
        (["--hf-token", "secret"], "hf-token", "secret"),
        (["--served-model-name", "a", "b", "--port", "1"], "served-model-name", "a b"),
        (["--api-key", ""], "api-key", ""),
        (["--kv-transfer-config", '{"kv_role":"kv_both"}'], "kv-transfer-config", {"kv_role": "kv_both"}),
        (["--kv-transfer-config.kv_role", "x"], "kv-transfer-config", {"kv_role": "x"}),
        (
            ["--kv-transfer-config.a.b=1", "--kv_transfer_config.a.c", "x"],
            "kv-transfer-config",
            {"a": {"b": 1, "c": "x"}},
        ),
        (
            ["--kv-transfer-config.e.backends+", "LIBFABRIC", "--kv-transfer-config.e.backends+=UCX,POSIX"],
            "kv-transfer-config",
            {"e": {"backends": ["LIBFABRIC", "UCX", "POSIX"]}},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_values(facts: Facts, args: list[str], flag: str, value: object) -> None:
    engine = parse(facts, *args)
    assert engine.problems == ()
    assert engine.values[flag] == value
    assert type(engine.values[flag]) is type(value)


def test_the_last_one_wins_whatever_its_spelling(facts: Facts) -> None:
    engine = parse(
        facts, "--tensor-parallel-size", "8", "-tp=4", "--enable-prefix-caching", "--max-num-seqs=2"
    )
    assert engine.integer("tensor-parallel-size") == 4
    assert engine.indices["tensor-parallel-size"] == 2
    assert parse(facts, "--enforce-eager", "--no-enforce-eager").values["enforce-eager"] is False


def test_dotted_parts_win_over_json_given_whole(facts: Facts) -> None:
    engine = parse(facts, "--kv-transfer-config.kv_role", "x", "--kv-transfer-config", '{"kv_connector":"N"}')
    assert engine.values["kv-transfer-config"] == {"kv_role": "x"}


def test_an_automatic_length_is_no_integer(facts: Facts) -> None:
    assert parse(facts, "--max-model-len", "auto").integer("max-model-len") is None


@pytest.mark.parametrize(
    ("args", "kind", "flag", "index"),
    [
        (["--port", "1", "--tensor-paralel-size", "4"], "unknown", "tensor-paralel-size", 2),
        (["-foo"], "unknown", "-foo", 0),
        (["--no-port"], "unknown", "no-port", 0),
        (["--no-headless"], "unknown", "no-headless", 0),
        (["--no-disable-log-stats"], "unknown", "no-disable-log-stats", 0),
        (["--max-model-len.x", "4"], "unknown", "max-model-len", 0),
        (["-O.mode", "3"], "unknown", "optimization-level", 0),
        (["--disable-log-requests"], "removed", "disable-log-requests", 0),
        (["--swap-space", "4"], "removed", "swap-space", 0),
        (["--max-num-seqs", "many"], "value", "max-num-seqs", 0),
        (["--max-num-seqs", "16k"], "value", "max-num-seqs", 0),
        (["--max-num-seqs"], "value", "max-num-seqs", 0),
        (["--max-model-len", "1.5K"], "value", "max-model-len", 0),
        (["--max-model-len", "1e400"], "value", "max-model-len", 0),
        (["--max-num-batched-tokens", "auto"], "value", "max-num-batched-tokens", 0),
        (["--gpu-memory-utilization", "high"], "value", "gpu-memory-utilization", 0),
        (["--gpu-memory-utilization", "inf"], "value", "gpu-memory-utilization", 0),
        (["--gpu-memory-utilization", "nan"], "value", "gpu-memory-utilization", 0),
        (["--enforce-eager=true"], "value", "enforce-eager", 0),
        (["--kv-transfer-config", "{oops"], "value", "kv-transfer-config", 0),
        (["--kv-transfer-config", '{"a":' * 100_000], "value", "kv-transfer-config", 0),
        (["--kv-transfer-config.kv_role"], "value", "kv-transfer-config", 0),
        (["--enforce-eager", "true"], "stray", "", 1),
        (["--max-num-seqs", "4", "5"], "stray", "", 2),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else None,
)
def test_problems(facts: Facts, args: list[str], kind: str, flag: str, index: int) -> None:
    (problem,) = parse(facts, *args).problems
    assert (problem.kind, problem.flag, problem.index) == (kind, flag, index)


def test_the_model_may_be_the_first_word(facts: Facts) -> None:
    assert parse(facts, "/opt/ml/model", "--port", "1").problems == ()


def test_a_problem_leaves_the_other_flags_readable(facts: Facts) -> None:
    engine = parse(facts, "--nope", "--max-num-seqs", "x", "-tp", "2")
    assert [problem.kind for problem in engine.problems] == ["unknown", "value"]
    assert engine.integer("tensor-parallel-size") == 2
