"""Every way to fail, once."""

import asyncio
import json

import aiohttp
import pytest

RESET = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)


async def chunks(lab, worker, **fields):
    """Return the parts of a stream that arrived, and the error that ended it."""
    body = {"prompt": "hello", "max_tokens": 8, "stream": True} | fields
    got = b""
    try:
        async with lab.session.post(worker.url + "/v1/completions", json=body) as response:
            async for part in response.content.iter_any():
                got += part
    except RESET as error:
        return got, error
    return got, None


def test_refuse_connections(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        await lab.text(worker)
        fault(worker, "refuse_connections")
        with pytest.raises(aiohttp.ClientConnectorError):
            await lab.get(worker, "/health")
        worker.faults.clear()
        await answers(lab, worker)

    simulate(scenario)


def test_refuse_connections_for_a_time(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "refuse_connections", delay_s=0.05)
        with pytest.raises(aiohttp.ClientConnectorError):
            await lab.get(worker, "/health")
        await answers(lab, worker)

    simulate(scenario)


async def answers(lab, worker):
    """Wait until the worker takes connections."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await lab.get(worker, "/health")
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.01)


def test_hang_sends_nothing_and_ends_with_the_client(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "hang", requests=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await lab.text(worker)
        assert await lab.text(worker)
        assert idle(worker)

    simulate(scenario)


def test_slow_prefill_holds_up_those_behind_it(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "slow_prefill", requests=1, delay_s=3600)
        slow = asyncio.create_task(lab.text(worker))
        behind = asyncio.create_task(lab.text(worker))
        await lab.until(lambda: worker.load.running == 2)
        done, _ = await asyncio.wait({slow, behind}, timeout=0.2)
        assert not done
        slow.cancel()
        behind.cancel()
        await lab.until(lambda: idle(worker))

    simulate(scenario)


@pytest.mark.parametrize("status", [500, 503])
def test_error_status_leaves_health_alone(simulate, fault, status):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "error_status", requests=1, status=status)
        got, body = await lab.post(worker)
        assert (got, body["error"]["code"]) == (status, status)
        assert (await lab.get(worker, "/health"))[0] == 200
        assert (await lab.post(worker))[0] == 200

    simulate(scenario)


def test_die_mid_prefill_resets_the_connection(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "die_mid_prefill", requests=1)
        with pytest.raises(RESET):
            await lab.text(worker)
        assert idle(worker)
        assert await lab.text(worker)

    simulate(scenario)


def test_die_mid_stream_resets_after_some_tokens(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker(itl_ms=20)
        fault(worker, "die_mid_stream", requests=1, after_chunks=2)
        got, error = await chunks(lab, worker)
        assert error is not None
        assert got.count(b"data: ") == 2
        assert b"[DONE]" not in got
        assert idle(worker)

    simulate(scenario)


def test_a_whole_worker_dies_with_its_other_requests(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker(itl_ms=20)
        other = asyncio.create_task(chunks(lab, worker, max_tokens=1000, ignore_eos=True))
        await lab.until(lambda: worker.load.running == 1)
        fault(worker, "die_mid_prefill", whole_worker=True, requests=1)
        with pytest.raises(RESET):
            await lab.text(worker)
        assert (await other)[1] is not None
        await worker.ended.wait()
        with pytest.raises(aiohttp.ClientConnectorError):
            await lab.get(worker, "/health")
        await worker.start()
        assert await lab.text(worker)

    simulate(scenario)


def test_stall_mid_stream_keeps_the_connection(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "stall_mid_stream", requests=1, after_chunks=2)
        body = {"prompt": "hello", "stream": True}
        async with lab.session.post(worker.url + "/v1/completions", json=body) as response:
            await response.content.readuntil(b"\n\n")
            await response.content.readuntil(b"\n\n")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await response.content.read(1)
            assert worker.load.running == 1
        await lab.until(lambda: idle(worker))

    simulate(scenario)


def test_wrong_text(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "wrong_text", requests=1)
        assert await lab.text(worker) != await lab.text(worker)

    simulate(scenario)


def test_malformed_json_ends_regularly(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "malformed_json", requests=1)
        with pytest.raises(json.JSONDecodeError):
            await lab.text(worker)
        fault(worker, "malformed_json", requests=1)
        with pytest.raises(json.JSONDecodeError):
            await lab.events(worker)

    simulate(scenario)


def test_oversized_chunks_leave_the_text_alone(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        right = await lab.text(worker)
        fault(worker, "oversized_chunks", chunk_bytes=300_000)
        assert await lab.text(worker) == right
        raw = await lab.raw_stream(worker)
        assert len(raw) > 8 * 300_000
        events = await lab.events(worker)
        assert "".join(event["choices"][0]["text"] for event in events[:-1]) == right

    simulate(scenario)


def test_a_dead_engine_fails_what_runs_and_what_comes(simulate, fault, idle):
    async def scenario(lab):
        worker = await lab.worker(itl_ms=20)
        running = asyncio.create_task(lab.events(worker, max_tokens=1000, ignore_eos=True))
        await lab.until(lambda: worker.load.running == 1)
        fault(worker, "engine_death", requests=1)
        assert (await lab.post(worker))[0] == 500
        assert (await running)[-2]["error"]["type"] == "InternalServerError"
        assert (await lab.get(worker, "/health"))[0] == 503
        assert (await lab.post(worker))[0] == 500
        assert idle(worker)

    simulate(scenario)


def test_lying_health(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "engine_death")
        fault(worker, "lying_health")
        assert (await lab.post(worker))[0] == 500
        assert (await lab.get(worker, "/health"))[0] == 200

    simulate(scenario)


def test_one_shot_faults_count_requests(simulate, fault):
    async def scenario(lab):
        worker = await lab.worker()
        fault(worker, "error_status", requests=2)
        assert [(await lab.post(worker))[0] for _ in range(3)] == [500, 500, 200]

    simulate(scenario)


def test_a_client_that_goes_frees_what_it_held(simulate, idle):
    async def scenario(lab):
        worker = await lab.worker(itl_ms=20)
        leg = asyncio.create_task(lab.text(worker, max_tokens=1000, ignore_eos=True))
        await lab.until(lambda: worker.load.running == 1)
        leg.cancel()
        await lab.until(lambda: idle(worker))
        assert worker.counters.success["abort"] == 1

    simulate(scenario)


def test_faults_are_set_and_cleared_over_http(simulate):
    async def scenario(lab):
        worker = await lab.worker(allow_faults=True)
        url = worker.url + "/simulator/faults"
        async with lab.session.post(url, json={"kind": "error_status", "status": 503}) as response:
            assert (await response.json())[0]["kind"] == "error_status"
        assert (await lab.post(worker))[0] == 503
        async with lab.session.delete(url, params={"kind": "error_status"}) as response:
            assert await response.json() == []
        assert (await lab.post(worker))[0] == 200

    simulate(scenario)


@pytest.mark.parametrize("body", [{"kind": "nothing_known"}, {"kind": "hang", "after": 3}])
def test_an_unknown_fault_is_refused(simulate, body):
    async def scenario(lab):
        worker = await lab.worker(allow_faults=True)
        async with lab.session.post(worker.url + "/simulator/faults", json=body) as response:
            assert response.status == 400
            assert (await response.json())["error"]["message"]

    simulate(scenario)


def test_faults_over_http_must_be_allowed(simulate):
    async def scenario(lab):
        worker = await lab.worker()
        async with lab.session.post(worker.url + "/simulator/faults", json={"kind": "hang"}) as response:
            assert response.status == 404

    simulate(scenario)
