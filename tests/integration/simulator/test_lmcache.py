"""The hand-over of LMCache 0.4.3's PD backend."""

import asyncio

import pytest


def test_a_disaggregated_answer_equals_the_colocated_one(simulate, idle):
    async def scenario(lab):
        alone = await lab.worker()
        sink, prefiller, decoder = await lab.lmcache_pair()
        status, body = await lab.lmcache_prefill(prefiller, decoder)
        assert status == 200
        assert isinstance(body["kv_transfer_params"]["first_tok"], int)
        assert await sink.read(2) == [{"type": "ProxyNotif", "req_id": "one"}] * 2
        assert decoder.load.used_pages == (4, 4)
        assert await lab.text(decoder) == await lab.text(alone)
        assert decoder.counters.prompt_tokens["external_kv_transfer"] == 59
        assert idle(decoder)

    simulate(scenario)


def test_a_request_without_disagg_spec_kills_the_prefiller(simulate):
    async def scenario(lab):
        _, prefiller, decoder = await lab.lmcache_pair()
        status, body = await lab.post(prefiller)
        assert status == 500
        assert "disagg" not in body["error"]["message"]
        assert "NoneType" in body["error"]["message"]
        assert (await lab.get(prefiller, "/health"))[0] == 503
        assert (await lab.lmcache_prefill(prefiller, decoder))[0] == 500

    simulate(scenario)


@pytest.mark.parametrize("spec", [None, {}, {"req_id": "r", "receiver_host": "h", "receiver_init_port": 1}])
def test_an_unusable_disagg_spec_kills_the_prefiller_too(simulate, spec):
    async def scenario(lab):
        _, prefiller, _ = await lab.lmcache_pair(ranks=1)
        status, _ = await lab.post(prefiller, kv_transfer_params={"disagg_spec": spec})
        assert status == 500
        assert (await lab.get(prefiller, "/health"))[0] == 503

    simulate(scenario)


def test_fewer_ports_than_ranks_kill_the_prefiller(simulate):
    async def scenario(lab):
        _, prefiller, _ = await lab.lmcache_pair(ranks=2)
        decoder = await lab.worker(role="decode", transport="lmcache")
        status, body = await lab.lmcache_prefill(prefiller, decoder)
        assert status == 500
        assert "IndexError" in body["error"]["message"]

    simulate(scenario)


def test_a_decoder_that_is_gone_holds_its_prefiller(simulate):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        await lab.lmcache_prefill(prefiller, decoder)
        await sink.read()
        await decoder.stop()
        leg = asyncio.create_task(lab.lmcache_prefill(prefiller, decoder, req_id="two"))
        assert not await sink.waiting()
        assert not leg.done()
        leg.cancel()

    simulate(scenario)


def test_pages_stay_until_the_decode_leg(simulate, idle):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        await lab.lmcache_prefill(prefiller, decoder)
        await sink.read()
        await lab.text(decoder, "something else")
        assert decoder.load.used_pages == (4,)
        await lab.text(decoder, max_tokens=1)
        assert idle(decoder)

    simulate(scenario)


def test_a_tag_keeps_two_requests_apart(simulate):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        for name in ("a", "b"):
            await lab.lmcache_prefill(prefiller, decoder, req_id=name, **{"lmcache.tag.dpd": name})
        await sink.read(2)
        assert decoder.load.used_pages == (8,)
        await lab.text(decoder)
        assert decoder.load.used_pages == (8,)
        await lab.text(decoder, kv_transfer_params={"lmcache.tag.dpd": "a"})
        assert decoder.load.used_pages == (4,)

    simulate(scenario)


def test_a_shared_page_goes_with_its_last_request(simulate, idle):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        await lab.lmcache_prefill(prefiller, decoder, req_id="a")
        await lab.lmcache_prefill(prefiller, decoder, req_id="b")
        await sink.read(2)
        assert decoder.load.used_pages == (4,)
        await lab.text(decoder)
        assert decoder.load.used_pages == (4,)
        await lab.text(decoder)
        assert idle(decoder)

    simulate(scenario)


def test_another_hash_seed_finds_no_page(simulate):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1, hash_seed=7)
        await lab.lmcache_prefill(prefiller, decoder)
        await sink.read()
        await lab.text(decoder)
        assert decoder.counters.prompt_tokens["external_kv_transfer"] == 0
        assert decoder.load.used_pages == (4,)

    simulate(scenario)


def test_a_full_buffer_stops_every_prefill(simulate):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1, pd_pages=6)
        await lab.lmcache_prefill(prefiller, decoder)
        await sink.read()
        second = asyncio.create_task(lab.lmcache_prefill(prefiller, decoder, "x " * 60, "two"))
        await lab.until(lambda: decoder.load.used_pages == (6,))
        assert not await sink.waiting()
        await lab.text(decoder)
        assert (await second)[0] == 200
        assert (await sink.read())[0]["req_id"] == "two"

    simulate(scenario)


def test_the_full_buffer_fault_lasts_until_it_is_cleared(simulate, fault):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        fault(decoder, "full_buffer")
        leg = asyncio.create_task(lab.lmcache_prefill(prefiller, decoder))
        assert not await sink.waiting()
        decoder.faults.clear()
        assert (await leg)[0] == 200

    simulate(scenario)


@pytest.mark.parametrize("ranks", [None, (1,)])
def test_lose_notification(simulate, fault, ranks):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair()
        fault(prefiller, "lose_notification", requests=1, ranks=ranks)
        assert (await lab.lmcache_prefill(prefiller, decoder))[0] == 200
        if ranks:
            await sink.read()
        assert not await sink.waiting()

    simulate(scenario)


def test_late_notification(simulate, fault):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        fault(prefiller, "late_notification", requests=1, delay_s=0.5)
        assert (await lab.lmcache_prefill(prefiller, decoder))[0] == 200
        assert not await sink.waiting()
        await sink.read()

    simulate(scenario)


def test_decoding_before_the_write_gives_wrong_text(simulate, fault):
    async def scenario(lab):
        alone = await lab.worker()
        sink, prefiller, decoder = await lab.lmcache_pair()
        fault(prefiller, "early_notification", requests=1, delay_s=1.0, ranks=(1,))
        leg = asyncio.create_task(lab.lmcache_prefill(prefiller, decoder))
        await sink.read(2)
        assert await lab.text(decoder) != await lab.text(alone)
        assert (await leg)[0] == 200

    simulate(scenario)


def test_an_aborted_prefill_notifies_all_the_same(simulate, fault):
    async def scenario(lab):
        sink, prefiller, decoder = await lab.lmcache_pair(ranks=1)
        fault(prefiller, "slow_prefill", requests=1, delay_s=0.2)
        leg = asyncio.create_task(lab.lmcache_prefill(prefiller, decoder))
        await lab.until(lambda: prefiller.load.running == 1)
        leg.cancel()
        await sink.read()
        await lab.until(lambda: prefiller.load.running == 0)
        assert decoder.load.used_pages == (4,)

    simulate(scenario)


def test_a_prefiller_that_dies_leaves_pages_unwritten(simulate, fault):
    async def scenario(lab):
        alone = await lab.worker()
        sink, prefiller, decoder = await lab.lmcache_pair()
        fault(prefiller, "die_mid_prefill", requests=1)
        with pytest.raises(Exception, match=r"(?i)reset|disconnected"):
            await lab.lmcache_prefill(prefiller, decoder)
        assert decoder.load.used_pages == (4, 4)
        assert not await sink.waiting()
        assert await lab.text(decoder) != await lab.text(alone)

    simulate(scenario)
