"""What clients do wrong, and what they leave behind when they go: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json

import pytest

ENDLESS = {"max_tokens": 10_000, "ignore_eos": True}
SLOW = {"itl_ms": 20}


async def leave(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def gone(system, lab):
    """Wait until the router has noted that a client went, and holds nothing any more."""
    await lab.until(lambda: not system.router.server.exchanges)
    await system.settled()
    found = [
        sample
        for family in system.router.services.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "dpd_router_requests_total" and sample.labels["code"] == "499"
    ]
    assert sum(sample.value for sample in found) == 1


def test_a_client_leaves_the_queue(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, limits={"decode_concurrency": 1}, decode=SLOW)
        first = asyncio.create_task(system.ask("hello", **ENDLESS))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        waiting = asyncio.create_task(system.ask("hello"))
        await lab.until(lambda: len(system.router.server.exchanges) == 2)
        await leave(waiting)
        await lab.until(lambda: len(system.router.server.exchanges) == 1)
        await leave(first)
        await system.settled()

    simulate(scenario)


def test_a_client_leaves_during_the_prefill(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport)
        fault(system.prefillers[0], "slow_prefill", delay_s=0.5, requests=1)
        asked = asyncio.create_task(system.ask())
        await lab.until(lambda: system.prefillers[0].load.running == 1)
        await leave(asked)
        await gone(system, lab)
        assert system.metric("releases_total", outcome="released") == 1

    simulate(scenario)


def test_a_client_leaves_during_a_prefill_that_fails(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(
            transport,
            prefillers=2,
            limits={"prefill_timeout_s": 0.5},
            lmcache={"notify_timeout_s": 0.5},
        )
        for prefiller in system.prefillers:
            fault(prefiller, "hang", requests=1)
        asked = asyncio.create_task(system.ask())
        await lab.until(lambda: sum(worker.running for worker in system.workers) == 1)
        await leave(asked)
        await gone(system, lab)
        # Nobody waits for a second attempt.
        assert sum(len(prefiller.faults.all()) for prefiller in system.prefillers) == 1

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_leaves_between_prefill_and_decode(simulate, transport, stream):
    async def scenario(lab):
        system = await lab.system(transport, limits={"decode_concurrency": 1}, decode=SLOW)
        first = asyncio.create_task(system.ask("hello", **ENDLESS))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        asked = asyncio.create_task(system.ask(stream=stream))
        await lab.until(lambda: system.router.services.decode.waiting("long") == 1)
        await leave(asked)
        await lab.until(lambda: len(system.router.server.exchanges) == 1)
        assert system.metric("releases_total", outcome="released") == 1
        await leave(first)
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("prompt", ["hello", " ".join(map(str, range(400)))])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_leaves_before_the_first_byte(simulate, fault, transport, prompt, stream):
    async def scenario(lab):
        system = await lab.system(transport, prefill={"kv_hold_timeout_s": 1})
        fault(system.decoders[0], "slow_prefill", delay_s=0.5, requests=1)
        asked = asyncio.create_task(system.ask(prompt, stream=stream))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        await leave(asked)
        await gone(system, lab)

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["hello", None])
def test_a_client_leaves_while_tokens_come(simulate, transport, stream, prompt):
    async def scenario(lab):
        system = await lab.system(transport, decode=SLOW)
        more = {"prompt": prompt} if prompt else {}
        asked = asyncio.create_task(system.ask(stream=stream, **more, max_tokens=50))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        await asyncio.sleep(0.1)
        await leave(asked)
        await gone(system, lab)
        assert not system.seen(system.decoders[0]).breaker.open
        assert (
            system.metric(
                "worker_failures_total",
                role="decode",
                worker=system.seen(system.decoders[0]).name,
                kind="broken",
            )
            == 0
        )

    simulate(scenario)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"prompt": "\xff"}', b'{"prompt": "a"} x', b'{"a":' + b"[" * 100_000],
)
def test_a_body_that_is_no_json_object(simulate, body):
    async def scenario(lab):
        system = await lab.system()
        async with lab.session.post(system.url + "/v1/completions", data=body) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (400, "malformed_json")
            assert error["type"] == "invalid_request_error"
            assert response.headers["x-request-id"]
        assert system.metric("rejected_total", code="malformed_json") == 1

    simulate(scenario)


@pytest.mark.parametrize("key", ["kv_transfer_params", "kv_transfer\\u005fparams"])
def test_a_client_may_not_set_the_hand_over(simulate, key):
    async def scenario(lab):
        system = await lab.system()
        body = f'{{"prompt": "hello", "{key}": {{"do_remote_prefill": true}}}}'
        async with lab.session.post(system.url + "/v1/completions", data=body) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "reserved_key")

    simulate(scenario)


def test_a_body_that_is_too_large(simulate):
    async def scenario(lab):
        system = await lab.system(limits={"body_bytes": 2000})
        reply = await system.ask("x" * 4000)
        assert (reply.status, reply.error["code"]) == (413, "body_too_large")

    simulate(scenario)


def test_a_compressed_body(simulate):
    async def scenario(lab):
        system = await lab.system()
        body = gzip.compress(json.dumps({"prompt": "hello", "max_tokens": 8, "temperature": 0}).encode())
        headers = {"Content-Encoding": "gzip"}
        url = system.url + "/v1/completions"
        async with lab.session.post(url, data=body, headers=headers) as response:
            assert (await response.json())["choices"][0]["text"] == await system.right("hello")
        async with lab.session.post(url, data=b"no gzip", headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "unreadable_body")

    simulate(scenario)


def test_a_compressed_body_is_bounded_by_its_real_size(simulate):
    async def scenario(lab):
        system = await lab.system(limits={"body_bytes": 100_000})
        body = gzip.compress(b'{"prompt": "%b"}' % (b"a" * 10_000_000))
        headers = {"Content-Encoding": "gzip"}
        async with lab.session.post(system.url + "/v1/completions", data=body, headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (413, "body_too_large")

    simulate(scenario)


def test_a_chunked_upload_that_expects_to_be_asked(simulate):
    async def scenario(lab):
        system = await lab.system()

        async def parts():
            yield b'{"prompt": "hel'
            yield b'lo", "max_tokens": 8, "temperature": 0}'

        async with lab.session.post(system.url + "/v1/completions", data=parts(), expect100=True) as response:
            assert (await response.json())["choices"][0]["text"] == await system.right("hello")

    simulate(scenario)


def test_a_stream_for_http_1_0_ends_with_the_connection(simulate):
    async def scenario(lab):
        system = await lab.system()
        body = b'{"prompt": "hello", "max_tokens": 3, "stream": true}'
        reader, writer = await asyncio.open_connection("127.0.0.1", system.router.port)
        writer.write(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        head, _, events = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.0 200")
        assert b"transfer-encoding" not in head.lower()
        assert events.startswith(b"data: {")
        assert events.endswith(b"data: [DONE]\n\n")

    simulate(scenario)


def test_an_upload_that_stands_still_is_refused_in_the_end(simulate):
    async def scenario(lab):
        system = await lab.system(limits={"request_timeout_s": 0.3})
        reader, writer = await asyncio.open_connection("127.0.0.1", system.router.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        answer = await reader.readuntil(b'"}}')
        writer.close()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body_timeout" in answer

    simulate(scenario)


def test_a_client_leaves_in_its_upload(simulate):
    async def scenario(lab):
        system = await lab.system()
        _, writer = await asyncio.open_connection("127.0.0.1", system.router.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()
        await system.answers("hello")
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("prompt", ["long " * 200, "hello"])
def test_a_workers_400_passes_through_once(simulate, transport, prompt):
    async def scenario(lab):
        sizes = {"max_model_len": 128}
        system = await lab.system(transport, prefillers=2, decoders=2, prefill=sizes, decode=sizes)
        reply = await system.ask(prompt, max_tokens=8 if "long" in prompt else 1000)
        assert (reply.status, reply.error["type"]) == (400, "BadRequestError")
        assert "maximum context" in reply.error["message"]
        assert reply.headers["x-dpd-path"]
        refused = [worker for worker in system.workers if worker.breaker._in_a_row or worker.breaker.open]
        assert not refused
        assert system.metric("releases_total", outcome="lost") == 0
        await system.settled()

    simulate(scenario)


def test_a_slow_reader_stops_its_stream_alone(simulate, fault):
    async def scenario(lab):
        system = await lab.system(limits={"request_timeout_s": 3, "stream_idle_timeout_s": 1})
        fault(system.decoders[0], "oversized_chunks", chunk_bytes=2**20, requests=1)
        reader, writer = await asyncio.open_connection("127.0.0.1", system.router.port, limit=2**16)
        body = json.dumps({"prompt": "hello", "stream": True, "max_tokens": 60}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await reader.readuntil(b"data: ")
        await system.answers("hello", stream=True)
        [exchange] = system.router.server.exchanges.values()
        stream = exchange.answer._stream
        assert stream._payload_writer.transport.get_write_buffer_size() < 2**22
        # What it did not read is not passed on for ever.
        await lab.until(lambda: not system.router.server.exchanges)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert exchange.error in {"request_timeout", "client_gone"}
        await system.settled()

    simulate(scenario)
