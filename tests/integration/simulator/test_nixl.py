"""The hand-over of vLLM's NixlConnector."""

import asyncio

import pytest


def test_a_disaggregated_answer_equals_the_colocated_one(simulate, idle):
    async def scenario(lab):
        alone = await lab.worker()
        prefiller, decoder = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        text = await lab.text(decoder, kv_transfer_params=params)
        assert text == await lab.text(alone)
        assert decoder.counters.prompt_tokens["external_kv_transfer"] == 60
        assert decoder.counters.prompt_tokens["local_compute"] == 0
        assert prefiller.counters.prompt_tokens["local_compute"] == 60
        assert idle(prefiller)
        assert idle(decoder)

    simulate(scenario)


def test_the_prefiller_answers_with_vllms_parameters(simulate):
    async def scenario(lab):
        prefiller, _ = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        assert params["do_remote_prefill"] is True
        assert params["do_remote_decode"] is False
        assert params["tp_size"] == 1
        assert params["remote_port"] == prefiller.config.side_channel_port
        assert [len(group) for group in params["remote_block_ids"]] == [4]
        assert prefiller.load.held_blocks == 4

    simulate(scenario)


def test_the_parameters_of_another_request_give_another_text(simulate):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        right = await lab.text(decoder)
        await lab.nixl_prefill(prefiller)
        others = await lab.nixl_prefill(prefiller, "some quite different prompt")
        assert await lab.text(decoder, kv_transfer_params=others) != right

    simulate(scenario)


def test_blocks_that_nobody_pulls_go_after_a_while(simulate, idle):
    async def scenario(lab):
        prefiller = await lab.worker(role="prefill", kv_hold_timeout_s=0.05)
        await lab.nixl_prefill(prefiller)
        await lab.until(lambda: idle(prefiller))
        assert prefiller.counters.nixl_expired == 1

    simulate(scenario)


def test_a_pull_that_comes_too_late_reads_what_is_there_by_then(simulate, idle):
    async def scenario(lab):
        prefiller = await lab.worker(role="prefill", max_model_len=64, kv_blocks=4, kv_hold_timeout_s=0.05)
        decoder = await lab.worker(role="decode")
        right = await lab.text(decoder)
        params = await lab.nixl_prefill(prefiller)
        await lab.until(lambda: idle(prefiller))
        await lab.text(prefiller, "other " * 60, max_tokens=1)
        assert await lab.text(decoder, kv_transfer_params=params) != right

    simulate(scenario)


@pytest.mark.parametrize("lacking", ["remote_block_ids", "remote_engine_id", "remote_port"])
def test_parameters_that_lack_a_part_move_nothing(simulate, lacking):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        await lab.text(decoder, kv_transfer_params=params | {lacking: None})
        assert decoder.counters.prompt_tokens["local_compute"] == 60

    simulate(scenario)


def test_a_nixl_prefiller_answers_plain_requests(simulate, idle):
    async def scenario(lab):
        alone = await lab.worker()
        prefiller, _ = await lab.nixl_pair()
        assert await lab.text(prefiller) == await lab.text(alone)
        assert idle(prefiller)

    simulate(scenario)


def test_a_prefiller_full_of_held_blocks_makes_others_wait(simulate):
    async def scenario(lab):
        prefiller = await lab.worker(role="prefill", max_model_len=96, kv_blocks=6)
        params = await lab.nixl_prefill(prefiller)
        second = asyncio.create_task(lab.nixl_prefill(prefiller, "other " + lab_prompt))
        await lab.until(lambda: prefiller.load.waiting == 1)
        decoder = await lab.worker(role="decode")
        await lab.text(decoder, kv_transfer_params=params)
        assert (await second)["do_remote_prefill"] is True

    lab_prompt = "word " * 50
    simulate(scenario)


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_restarted_prefiller_is_another_engine(simulate, policy):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair(kv_load_failure_policy=policy)
        right = await lab.text(decoder)
        params = await lab.nixl_prefill(prefiller)
        await prefiller.stop()
        await prefiller.start()
        status, body = await lab.post(decoder, kv_transfer_params=params)
        assert decoder.counters.nixl_failed_transfers == 1
        if policy == "fail":
            assert (status, body["error"]["type"]) == (500, "InternalServerError")
        else:
            assert body["choices"][0]["text"] == right
            assert decoder.counters.prompt_tokens["external_kv_transfer"] == 0

    simulate(scenario)


def test_a_dead_prefiller_fails_the_pull(simulate, idle):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        await prefiller.stop()
        assert (await lab.post(decoder, kv_transfer_params=params))[0] == 500
        assert idle(decoder)

    simulate(scenario)


def test_a_failed_pull_ends_a_stream_with_an_error_event(simulate):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        await prefiller.stop()
        events = await lab.events(decoder, kv_transfer_params=params)
        assert events[0]["error"]["code"] == 500
        assert events[1:] == [None]

    simulate(scenario)


def test_an_aborted_decode_releases_the_prefillers_blocks(simulate, idle):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair(transfer_ms=60_000)
        params = await lab.nixl_prefill(prefiller)
        leg = asyncio.create_task(lab.text(decoder, kv_transfer_params=params))
        await lab.until(lambda: decoder.load.running == 1)
        leg.cancel()
        await lab.until(lambda: idle(prefiller) and idle(decoder))

    simulate(scenario)


def test_an_aborted_prefill_holds_nothing(simulate, fault, idle):
    async def scenario(lab):
        prefiller, _ = await lab.nixl_pair()
        fault(prefiller, "slow_prefill", delay_s=0.2)
        leg = asyncio.create_task(lab.nixl_prefill(prefiller))
        await lab.until(lambda: prefiller.load.running == 1)
        leg.cancel()
        await lab.until(lambda: idle(prefiller))

    simulate(scenario)


def test_wrong_engine_id(simulate, fault):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        fault(prefiller, "wrong_engine_id", requests=1)
        params = await lab.nixl_prefill(prefiller)
        assert (await lab.post(decoder, kv_transfer_params=params))[0] == 500
        params = await lab.nixl_prefill(prefiller)
        assert (await lab.post(decoder, kv_transfer_params=params))[0] == 200

    simulate(scenario)


def test_ignore_kv_gives_the_right_text_and_moves_nothing(simulate, fault):
    async def scenario(lab):
        prefiller, decoder = await lab.nixl_pair()
        params = await lab.nixl_prefill(prefiller)
        fault(decoder, "ignore_kv")
        assert await lab.text(decoder, kv_transfer_params=params) == await lab.text(prefiller)
        assert decoder.counters.prompt_tokens["local_compute"] == 60
        assert prefiller.load.held_requests == 1

    simulate(scenario)
