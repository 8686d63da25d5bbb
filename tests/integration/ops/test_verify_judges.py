"""What no simulated fault brings about: routers and workers whose counters contradict their answers."""

from __future__ import annotations

import pytest

from dpd.ops.openai_client import Answer, Question
from dpd.ops.verify.answers import Pair, check_identity, check_streaming
from dpd.ops.verify.counters import Counters, add, parse_counters
from dpd.ops.verify.kv_transfer import check_kv_transfer
from dpd.ops.verify.paths import check_long, check_short
from dpd.ops.verify.probe import Observation
from dpd.ops.verify.target import Target, TargetWorker

TARGET = Target(
    environment="test",
    model="tiny",
    engine="vllm",
    transport="nixl",
    router_url="http://r:1",
    threshold_tokens=256,
    max_model_len=4096,
    replicas={"prefill": 1, "decode": 1},
    workers=(
        TargetWorker("prefill-0", "prefill", "http://p:1"),
        TargetWorker("decode-0", "decode", "http://d:1"),
    ),
)
HOPS = {"x-dpd-prefiller": "p:1", "x-dpd-decoder": "d:1"}
ROUTED = 'dpd_router_requests_total{path="%s"} 1'
SOURCE = 'vllm:prompt_tokens_by_source_total{source="%s"} %d'
NIXL = "vllm:nixl_xfer_time_seconds_count 1\nvllm:nixl_bytes_transferred_sum 4096"


def seen(path="disaggregated", router="", prefill="", decode="", text="", **answer):
    """Return an observation of an answer with these counters."""
    headers = {"x-dpd-path": path, "x-dpd-reason": "test", **(HOPS if path == "disaggregated" else {})}
    whole = {"status": 200, "prompt_tokens": 1000, "finish_reason": "length", "headers": headers} | answer
    counters = [parse_counters(f"{part}\n") for part in (router or ROUTED % path, prefill, decode)]
    return Observation(Question("?", 8), Answer(**whole), *counters)


def messages(check):
    return [finding.message for finding in check.findings]


def test_a_disaggregated_prompt_passes():
    check = check_long(TARGET, seen(prefill=SOURCE % ("local_compute", 1000)))
    assert check.findings == ()
    assert check.saw == "1000 tokens, disaggregated (test): prefill-0 -> decode-0"


def test_a_router_that_does_not_count_what_it_says():
    check = check_long(TARGET, seen(router=ROUTED % "bypass", prefill=SOURCE % ("local_compute", 1000)))
    assert messages(check) == ["says disaggregated and has not counted it in dpd_router_requests_total"]


def test_a_prefiller_that_did_nothing():
    assert messages(check_long(TARGET, seen())) == ["prefillers counted 0 of the prompt's 1000 tokens"]


def test_a_prefiller_that_nobody_knows():
    headers = {"x-dpd-path": "disaggregated", "x-dpd-prefiller": "q:1", "x-dpd-decoder": "d:1"}
    check = check_long(TARGET, seen(prefill=SOURCE % ("local_compute", 1000), headers=headers))
    assert messages(check) == ["says in x-dpd-prefiller that q:1 did the prefill"]


def test_a_prefiller_that_works_on_a_short_prompt():
    check = check_short(TARGET, seen("bypass", prefill=SOURCE % ("local_compute", 1000)))
    assert messages(check) == ["prefillers counted 1000 tokens during a prompt that went past them"]


def test_a_decoder_that_receives_and_computes_all_the_same():
    decode = "\n".join([SOURCE % ("external_kv_transfer", 1000), SOURCE % ("local_compute", 600), NIXL])
    check = check_kv_transfer("nixl", seen(decode=decode))
    assert messages(check) == ["received KV cache for 1000 tokens, and computed 600 all the same"]


def test_a_transfer_without_bytes():
    decode = "\n".join([SOURCE % ("external_kv_transfer", 1000), "vllm:nixl_xfer_time_seconds_count 1"])
    check = check_kv_transfer("nixl", seen(decode=decode))
    assert messages(check) == ["NIXL counted 1 transfers and 0 bytes"]


@pytest.mark.parametrize(("transport", "computed", "found"), [("nixl", 17, 1), ("lmcache", 256, 0)])
def test_a_last_block_may_be_computed(transport, computed, found):
    received = SOURCE % ("external_kv_transfer", 1000 - computed)
    check = check_kv_transfer(transport, seen(decode=f"{received}\n{NIXL}"))
    assert len(check.findings) == found


def test_text_is_compared_to_the_last_character():
    routed, alone = (Answer(status=200, text=text, finish_reason="length") for text in ("abc", "abcd"))
    check = check_identity([Pair(Question("?", 8), routed, alone)])
    assert [finding.id for finding in check.findings] == ["VER008"]


@pytest.mark.parametrize(("arrivals_s", "outcome"), [((0.5, 0.515), "failed"), ((0.5, 0.52), "passed")])
def test_a_stream_takes_half_a_millisecond_a_token(arrivals_s, outcome):
    answer = Answer(status=200, finish_reason="length", completion_tokens=32, arrivals_s=arrivals_s)
    assert check_streaming([answer]).outcome == outcome


def test_counters_are_summed_over_labels_and_workers():
    one = parse_counters('a_total{x="1",y="1"} 2\na_total{x="1",y="2"} 3\na_total{x="2"} 5\n')
    assert one.total("a_total", x="1") == 5
    assert add([one, one]).total("a_total") == 20
    assert one.since(parse_counters('a_total{x="2"} 4\n')).total("a_total", x="2") == 1
    assert Counters({}).total("a_total") == 0


@pytest.mark.parametrize(
    ("arguments", "role", "transfers"),
    [
        (("--kv-transfer-config", '{"kv_role":"kv_producer"}'), "prefill", True),
        (("--kv-transfer-config", '{"kv_role":"kv_consumer"}'), "decode", True),
        (('--kv-transfer-config={"kv_role":"kv_both"}',), "", True),
        (("--role", "decode"), "decode", True),
        (("--model", "x"), "", False),
    ],
)
def test_arguments_state_a_role(arguments, role, transfers):
    worker = TargetWorker("w", "decode", "http://d:1", arguments)
    assert (worker.stated_role, worker.transfers_kv) == (role, transfers)
