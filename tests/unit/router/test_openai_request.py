import json

import pytest

from dpd.router.failure import Failure
from dpd.router.openai_request import CHAT_PATH, COMPLETIONS_PATH, parse_request


def chat(**keys):
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 400}], **keys}
    return parse_request(CHAT_PATH, json.dumps(body).encode())


def completion(**keys):
    return parse_request(COMPLETIONS_PATH, json.dumps({"model": "m", "prompt": "x" * 400, **keys}).encode())


@pytest.mark.parametrize("request_", [chat(), completion()])
def test_tokens_are_a_quarter_of_the_characters(request_):
    assert request_.estimated_tokens() == 100


def test_token_ids_are_counted():
    assert completion(prompt=[5] * 77).estimated_tokens() == 77


def test_text_parts_of_messages_are_counted():
    parts = [{"type": "text", "text": "x" * 40}, {"type": "image_url", "image_url": {"url": "y" * 999}}]
    assert chat(messages=[{"role": "user", "content": parts}]).estimated_tokens() == 10


@pytest.mark.parametrize("messages", [None, 5, "text", [5], [{"content": 5}], [{}], [{"content": [5]}]])
def test_what_a_worker_will_refuse_is_read_without_failing(messages):
    assert chat(messages=messages).estimated_tokens() == 0


def test_chinese_text_reserves_room_for_a_token_a_character():
    request = completion(prompt="预填充" * 100)
    raw = parse_request(COMPLETIONS_PATH, json.dumps({"prompt": "预填充" * 100}, ensure_ascii=False).encode())
    assert request.estimated_tokens() == 75
    assert raw.most_tokens() >= 300


def test_the_decode_leg_without_a_kv_cache_is_the_clients_bytes():
    raw = b'{ "prompt" : "a",\n "stream":true }\n'
    assert parse_request(COMPLETIONS_PATH, raw).decode_body(None) == raw


def test_the_decode_leg_only_adds_where_the_kv_cache_is():
    request = chat(tools=[{"type": "function"}], seed=4, n=1)
    sent = json.loads(request.decode_body({"remote_port": 5600}))
    assert sent == {**json.loads(request.raw), "kv_transfer_params": {"remote_port": 5600}}


def test_the_prefill_leg_asks_for_one_token_and_no_stream():
    request = chat(
        max_tokens=500, max_completion_tokens=500, min_tokens=9, stream=True, stream_options={}, seed=4
    )
    sent = json.loads(request.prefill_body({"do_remote_decode": True}))
    assert (sent["max_tokens"], sent["max_completion_tokens"], sent["min_tokens"]) == (1, 1, 0)
    assert (sent["stream"], sent["stream_options"], sent["n"], sent["seed"]) == (False, None, 1, 4)
    assert sent["kv_transfer_params"] == {"do_remote_decode": True}
    assert sent["messages"] == json.loads(request.raw)["messages"]


def test_completions_know_no_max_completion_tokens():
    assert "max_completion_tokens" not in json.loads(completion().prefill_body({}))


@pytest.mark.parametrize(
    ("reason", "request_"),
    {
        "several_choices": chat(n=2),
        "several_prompts": completion(prompt=["a", "b"]),
        "prompt_logprobs": completion(prompt_logprobs=1),
        "no_prompt": completion(prompt=""),
    }.items(),
)
def test_what_one_hand_over_cannot_feed_stays_whole(reason, request_):
    assert request_.why_undivided() == reason


@pytest.mark.parametrize(
    "keys", [{"n": "2"}, {"n": 2.0}, {"best_of": "3"}, {"use_beam_search": "true"}, {"use_beam_search": 1}]
)
def test_numbers_and_switches_count_as_vllm_reads_them(keys):
    assert completion(**keys).why_undivided() == "several_choices"


@pytest.mark.parametrize(
    "keys", [{"n": 1}, {"n": None}, {"n": "1"}, {"best_of": 1}, {"use_beam_search": False}]
)
def test_one_choice_is_handed_over(keys):
    assert completion(**keys).why_undivided() == ""


def test_embeddings_beside_a_prompt_are_a_prompt_of_their_own():
    assert completion(prompt_embeds="AAAA").why_undivided() == "several_prompts"


def test_a_prompt_that_is_cut_to_what_its_answer_leaves_stays_whole():
    assert completion(truncate_prompt_tokens=-1).why_undivided() == "truncated_prompt"


@pytest.mark.parametrize("prompt", [[5, "a"], [5, {}], [True, False]])
def test_what_is_not_all_token_ids_is_none(prompt):
    assert completion(prompt=prompt).token_ids is None


def test_echo_with_logprobs_stays_whole():
    assert completion(echo=True, logprobs=1).why_undivided() == "prompt_logprobs"
    assert completion(echo=True).why_undivided() == ""


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"{}x", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_malformed_json_is_a_400(raw):
    with pytest.raises(Failure) as refused:
        parse_request(CHAT_PATH, raw)
    assert (refused.value.status, refused.value.code) == (400, "malformed_json")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kv_transfer_params": {}}',
        b'{"kv_transfer\\u005fparams": {"a": 1}}',
        b'{"vllm_xargs": {"kv_transfer_params": "a"}}',
    ],
)
def test_clients_must_not_point_a_decoder_at_an_address(raw):
    with pytest.raises(Failure, match="reserved_key"):
        parse_request(CHAT_PATH, raw)


def test_the_text_begins_with_what_templates_put_first():
    request = chat(
        tools=[{"name": "t"}],
        messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
    )
    text = request.text()
    assert text.index('"t"') < text.index("system\nS") < text.index("user\nU")


def test_token_ids_with_an_equal_prefix_have_texts_with_one():
    short, long = completion(prompt=[1, 22, 3]), completion(prompt=[1, 22, 3, 4])
    assert long.text().startswith(short.text())
    assert not completion(prompt=[12, 2, 3]).text().startswith("1 ")
