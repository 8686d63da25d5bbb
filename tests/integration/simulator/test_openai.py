"""The surface of vLLM's OpenAI server."""

import asyncio

import pytest

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "tell me a tale"}]


def content(events):
    return "".join(choice["delta"].get("content", "") for event in events[:-1] for choice in event["choices"])


def pieces(events):
    return "".join(choice["text"] for event in events[:-1] for choice in event["choices"])


def test_the_answer_depends_on_the_prompt_alone(simulate):
    async def scenario(lab):
        first, second = await lab.worker(), await lab.worker()
        assert await lab.text(first) == await lab.text(second)
        assert await lab.text(first) != await lab.text(first, "another prompt")

    simulate(scenario)


def test_a_longer_answer_begins_with_the_shorter_one(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        assert (await lab.text(worker, max_tokens=20)).startswith(await lab.text(worker, max_tokens=3))

    simulate(scenario)


def test_a_whole_completion_has_vllms_shape(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        _, body = await lab.post(worker)
        assert body["object"] == "text_completion"
        assert body["id"].startswith("cmpl-")
        assert body["usage"] == {"prompt_tokens": 60, "completion_tokens": 8, "total_tokens": 68}
        assert body["choices"][0]["finish_reason"] == "length"
        assert len(body["choices"][0]["text"].split()) == 8

    simulate(scenario)


@pytest.mark.parametrize("max_tokens", [1, 2, 9])
@pytest.mark.parametrize("more", [{}, {"logprobs": 1}, {"stop": ["never said"]}])
def test_a_stream_says_what_the_whole_says(simulate, max_tokens, more):
    async def scenario(lab):
        worker = await lab.worker()
        events = await lab.events(worker, max_tokens=max_tokens, **more)
        assert pieces(events) == await lab.text(worker, max_tokens=max_tokens, **more)
        assert len(events) == max_tokens + 1
        assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [
            *[None] * (max_tokens - 1),
            "length",
        ]
        assert events[-1] is None

    simulate(scenario)


def test_a_chat_streams_its_role_first(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        events = await lab.events(worker, None, CHAT, messages=MESSAGES)
        assert events[0]["object"] == "chat.completion.chunk"
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        _, whole = await lab.post(worker, None, CHAT, messages=MESSAGES)
        assert content(events) == whole["choices"][0]["message"]["content"]

    simulate(scenario)


def test_usage_comes_in_an_event_of_its_own(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        events = await lab.events(worker, stream_options={"include_usage": True})
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["completion_tokens"] == 8

    simulate(scenario)


def test_tools_are_part_of_the_prompt(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        tools = [{"type": "function", "function": {"name": "look_up"}}]
        _, without = await lab.post(worker, None, CHAT, messages=MESSAGES)
        _, with_tools = await lab.post(worker, None, CHAT, messages=MESSAGES, tools=tools)
        assert with_tools["usage"]["prompt_tokens"] > without["usage"]["prompt_tokens"]
        assert with_tools["choices"][0]["message"] != without["choices"][0]["message"]

    simulate(scenario)


def test_content_parts_read_like_their_text(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        parts = [{"type": "text", "text": "tell me "}, {"type": "text", "text": "a tale"}]
        messages = [MESSAGES[0], {"role": "user", "content": parts}]
        _, whole = await lab.post(worker, None, CHAT, messages=MESSAGES)
        _, parted = await lab.post(worker, None, CHAT, messages=messages)
        assert parted["choices"] == whole["choices"]

    simulate(scenario)


def test_token_ids_of_a_prompt_give_its_answer(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        async with lab.session.post(worker.url + "/tokenize", json={"prompt": "a b c"}) as response:
            tokens = await response.json()
        assert tokens["count"] == len(tokens["tokens"]) == 3
        assert await lab.text(worker, tokens["tokens"]) == await lab.text(worker, "a b c")

    simulate(scenario)


def test_tokenize_counts_a_chat_as_a_completion_does(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        async with lab.session.post(worker.url + "/tokenize", json={"messages": MESSAGES}) as response:
            count = (await response.json())["count"]
        _, body = await lab.post(worker, None, CHAT, messages=MESSAGES)
        assert body["usage"]["prompt_tokens"] == count

    simulate(scenario)


def test_several_prompts_and_choices_are_numbered_through(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        _, body = await lab.post(worker, ["one", "two words"], n=2)
        assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
        assert body["choices"][0]["text"] == body["choices"][1]["text"] == await lab.text(worker, "one")
        assert body["choices"][2]["text"] == await lab.text(worker, [[*await tokens(lab, worker)]])
        assert body["usage"]["prompt_tokens"] == 3

    async def tokens(lab, worker):
        async with lab.session.post(worker.url + "/tokenize", json={"prompt": "two words"}) as response:
            return (await response.json())["tokens"]

    simulate(scenario)


def test_choices_and_seeds_differ_where_they_are_sampled(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        _, body = await lab.post(worker, n=2, temperature=0.7, seed=1)
        first, second = (choice["text"] for choice in body["choices"])
        assert first != second
        assert first == await lab.text(worker, temperature=0.7, seed=1)
        assert first != await lab.text(worker, temperature=0.7, seed=2)

    simulate(scenario)


def test_more_choices_than_slots_take_turns(simulate):
    async def scenario(lab):
        worker = await lab.worker(max_num_seqs=1)
        _, body = await lab.post(worker, n=3)
        assert len(body["choices"]) == 3

    simulate(scenario)


def test_a_stop_word_ends_the_answer_before_it(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        words = (await lab.text(worker)).split()
        _, body = await lab.post(worker, stop=[words[3]])
        choice = body["choices"][0]
        assert choice["text"] == " ".join(words[:3]) + " "
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", words[3])
        assert pieces(await lab.events(worker, stop=words[3])) == choice["text"]

    simulate(scenario)


def test_an_answer_ends_by_itself_unless_told_not_to(simulate):
    async def scenario(lab):
        worker = await lab.worker(natural_tokens=5)
        _, body = await lab.post(worker, max_tokens=50)
        assert body["usage"]["completion_tokens"] == 5
        assert body["choices"][0]["finish_reason"] == "stop"
        _, body = await lab.post(worker, max_tokens=50, ignore_eos=True)
        assert body["usage"]["completion_tokens"] == 50

    simulate(scenario)


def test_logprobs_hold_one_entry_a_token(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        _, body = await lab.post(worker, logprobs=0)
        logprobs = body["choices"][0]["logprobs"]
        assert "".join(logprobs["tokens"]) == body["choices"][0]["text"]
        assert len(logprobs["token_logprobs"]) == len(logprobs["text_offset"]) == 8
        _, chat = await lab.post(worker, None, CHAT, messages=MESSAGES, logprobs=True)
        assert len(chat["choices"][0]["logprobs"]["content"]) == 8

    simulate(scenario)


def test_echo_repeats_the_prompt(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        assert (await lab.text(worker, "a b", echo=True)).startswith("a b ")

    simulate(scenario)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"prompt": "x " * 2000}, 400, "input_tokens"),
        ({"max_tokens": 10_000}, 400, "max_tokens"),
        ({"max_tokens": 0}, 400, None),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": [-1]}, 400, "prompt"),
        ({"prompt": None}, 400, "prompt"),
        ({"model": "other"}, 404, "model"),
    ],
)
def test_errors_are_openai_shaped(simulate, fields, status, param):
    async def scenario(lab):
        worker = await lab.worker(max_model_len=1000)
        prompt = fields.pop("prompt", "hello")
        got, body = await lab.post(worker, prompt, **fields)
        assert got == status
        assert body["error"]["code"] == status
        assert body["error"]["param"] == param
        assert body["error"]["message"]

    fields = dict(fields)
    simulate(scenario)


def test_a_body_that_is_not_json_is_refused(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        async with lab.session.post(worker.url + CHAT, data=b"{") as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "BadRequestError"

    simulate(scenario)


def test_models_health_ping_and_version(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        for path in ("/health", "/ping", "/version"):
            assert (await lab.get(worker, path))[0] == 200
        _, models = await lab.get(worker, "/v1/models")
        assert '"id": "tiny"' in models

    simulate(scenario)


def test_metrics_have_vllms_names(simulate):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        await lab.text(decoder, kv_transfer_params=await lab.nixl_prefill(prefiller))
        _, metrics = await lab.get(decoder, "/metrics")
        engine = 'engine="0",model_name="tiny"'
        by_source = f'vllm:prompt_tokens_by_source_total{{{engine},source="%s"}} %s'
        for line in (
            by_source % ("external_kv_transfer", 60.0),
            by_source % ("local_compute", 0.0),
            f"vllm:nixl_xfer_time_seconds_count{{{engine}}} 1.0",
            f"vllm:nixl_bytes_transferred_sum{{{engine}}} {60 * 2048}.0",
            f"vllm:external_prefix_cache_hits_total{{{engine}}} 60.0",
            f"vllm:external_prefix_cache_queries_total{{{engine}}} 60.0",
            f"vllm:num_requests_running{{{engine}}} 0.0",
            f"vllm:num_requests_waiting{{{engine}}} 0.0",
            f"vllm:kv_cache_usage_perc{{{engine}}} 0.0",
            f"vllm:generation_tokens_total{{{engine}}} 8.0",
        ):
            assert line in metrics

    simulate(scenario)


def test_a_known_prefix_is_not_computed_again(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        text = await lab.text(worker)
        assert await lab.text(worker) == text
        assert worker.counters.prompt_tokens["local_cache_hit"] == 59

    simulate(scenario)


def test_sequences_beyond_the_slots_wait(simulate):
    async def scenario(lab):
        worker = await lab.worker(max_num_seqs=1, itl_ms=5)
        texts = asyncio.gather(lab.text(worker), lab.text(worker))
        await lab.until(lambda: (worker.load.running, worker.load.waiting) == (1, 1))
        first, second = await texts
        assert first == second

    simulate(scenario)
