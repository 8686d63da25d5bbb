"""What a client gets when decoders fail: the right answer before the first byte, a clear error after it."""

from __future__ import annotations

import asyncio

import pytest

BEFORE = [
    ("refuse_connections", {}),
    ("error_status", {"status": 500}),
    ("error_status", {"status": 599}),
    ("die_mid_prefill", {}),
    ("die_mid_stream", {"after_chunks": 0}),
]
LONG_ANSWER = {"max_tokens": 400, "ignore_eos": True}
# What a decoder pulled, or was asked to pull, waits at the prefiller for its own time-out.
QUICK_HOLD = {"kv_hold_timeout_s": 1}


@pytest.mark.parametrize(("kind", "more"), BEFORE)
@pytest.mark.parametrize("stream", [False, True])
def test_before_the_first_byte_another_decoder_answers(simulate, fault, transport, kind, more, stream):
    async def scenario(lab):
        system = await lab.system(transport, decoders=2, prefill=QUICK_HOLD)
        # The least loaded, of equals the first by name.
        first = min(system.decoders, key=lambda one: system.seen(one).name)
        fault(first, kind, **more)
        reply = await system.answers(stream=stream)
        assert reply.path[0] in {"disaggregated", "fallback"}
        assert reply.headers["x-dpd-decoder"] != system.seen(first).name
        first.faults.clear()
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["hello", None])
def test_the_only_decoder_is_tried_again(simulate, fault, transport, stream, prompt):
    async def scenario(lab):
        system = await lab.system(transport, prefill=QUICK_HOLD)
        fault(system.decoders[0], "error_status", requests=1)
        await system.answers(**({"prompt": prompt} if prompt else {}), stream=stream)
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_every_attempt_fails(simulate, fault, transport, stream):
    async def scenario(lab):
        system = await lab.system(transport, prefill=QUICK_HOLD)
        fault(system.decoders[0], "error_status", status=599)
        reply = await system.ask(stream=stream)
        assert (reply.status, reply.error["code"]) == (502, "decode_status")
        assert reply.error["type"] == "BadGatewayError"
        assert reply.headers["x-dpd-decoder"] == system.seen(system.decoders[0]).name
        assert reply.headers["x-request-id"]
        system.decoders[0].faults.clear()
        await system.settled()

    simulate(scenario)


def test_no_decoder_is_up(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, limits={"queue_timeout_s": 0.5}, prefill=QUICK_HOLD)
        await system.decoders[0].stop()
        await lab.until(lambda: not system.router.services.decode.usable())
        for prompt in ("hello", "long " * 100):
            reply = await system.ask(prompt)
            assert (reply.status, reply.error["code"]) == (503, "no_decode_worker")
            assert reply.headers["Retry-After"]
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_decoder_that_dies_in_a_stream(simulate, fault, transport, path):
    async def scenario(lab):
        system = await lab.system(transport, decode={"itl_ms": 2})
        fault(system.decoders[0], "die_mid_stream", requests=1)
        reply = await system.ask(path=path, stream=True)
        assert reply.status == 200
        assert (reply.done, reply.error["code"]) == (False, "decode_broken")
        assert reply.text
        assert (await system.right(path=path)).startswith(reply.text)
        await system.settled()

    simulate(scenario)


def test_a_decoder_that_stalls_in_a_stream(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport, limits={"stream_idle_timeout_s": 0.5})
        fault(system.decoders[0], "stall_mid_stream", requests=1)
        reply = await system.ask(stream=True)
        assert (reply.done, reply.error["code"]) == (False, "decode_timeout")
        await system.settled()

    simulate(scenario)


def test_a_decoder_found_down_ends_its_streams(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport)
        fault(system.decoders[0], "stall_mid_stream", requests=1)
        async with system.post(stream=True) as response:
            await response.content.readuntil(b"\n\n")
            fault(system.decoders[0], "refuse_connections")
            rest = await response.read()
        assert b'"decode_lost"' in rest
        assert b"[DONE]" not in rest
        await system.settled()

    simulate(scenario)


def test_a_hung_decoder_does_not_hold_a_stream_for_ever(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(
            transport, decoders=2, limits={"stream_idle_timeout_s": 1}, prefill=QUICK_HOLD
        )
        first = min(system.decoders, key=lambda one: system.seen(one).name)
        fault(first, "hang", requests=1)
        await system.answers(stream=True)
        await system.settled()

    simulate(scenario)


def test_a_decoder_restarts(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, prefill=QUICK_HOLD)
        decoder = system.decoders[0]
        await system.answers()
        await decoder.stop()
        await lab.until(lambda: not system.seen(decoder).healthy)
        await decoder.start()
        await lab.until(lambda: system.seen(decoder).healthy)
        await system.answers()
        await system.settled()

    simulate(scenario)


def test_a_whole_answer_that_is_not_json_is_asked_for_again(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport)
        fault(system.decoders[0], "malformed_json", requests=1)
        await system.answers()
        await system.settled()

    simulate(scenario)


def test_a_dead_engine_under_a_healthy_face_is_ejected_by_traffic(simulate, fault, transport):
    async def scenario(lab):
        system = await lab.system(transport, decoders=2, prefill=QUICK_HOLD, workers={"ejection_s": 20})
        for kind in ("engine_death", "lying_health"):
            fault(system.decoders[0], kind)
        dead = system.seen(system.decoders[0])
        while not dead.breaker.open:
            await asyncio.gather(*(system.answers("hello") for _ in range(2)))
        assert dead.healthy
        assert dead not in system.router.services.decode.usable()
        failures = system.metric("worker_failures_total", role="decode", worker=dead.name, kind="status")
        await system.answers("hello")
        assert (
            system.metric("worker_failures_total", role="decode", worker=dead.name, kind="status")
            == failures
            == 3
        )

    simulate(scenario)


def test_traffic_never_ejects_the_last_decoder(simulate, fault):
    async def scenario(lab):
        system = await lab.system(workers={"failures_to_eject": 1, "ejection_s": 60})
        fault(system.decoders[0], "error_status", requests=3)
        assert (await system.ask("hello")).status == 502
        assert system.seen(system.decoders[0]).breaker.open
        await system.answers("hello")

    simulate(scenario)


def test_many_failures_at_once_are_one_ejection(simulate, fault):
    async def scenario(lab):
        system = await lab.system(decoders=2, workers={"ejection_s": 5})
        first = min(system.decoders, key=lambda one: system.seen(one).name)
        fault(first, "hang")
        waiting = [asyncio.create_task(system.answers("hello")) for _ in range(20)]
        await lab.until(lambda: sum(one.running for one in system.workers) >= 10)
        fault(first, "refuse_connections")
        await asyncio.gather(*waiting)
        assert 0 < system.seen(first).breaker.retry_in_s() <= 5

    simulate(scenario)
