"""Who waits, who is sent away, and whom that does not concern."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

ENDLESS = {"max_tokens": 10_000, "ignore_eos": True}
SLOW = {"itl_ms": 20}
ONE = {"decode_concurrency": 1, "queue_length": 1}


async def busy(lab, **config):
    """Return a system whose only decoder has no free slot, and the task that takes it."""
    system = await lab.system(decode=SLOW, limits=ONE | config.pop("limits", {}), **config)
    task = asyncio.create_task(system.ask("hello", **ENDLESS))
    await lab.until(lambda: system.decoders[0].load.running == 1)
    return system, task


async def end(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_full_queue_sends_away(simulate):
    async def scenario(lab):
        system, first = await busy(lab)
        waiting = asyncio.create_task(system.answers("hello"))
        await lab.until(lambda: system.router.services.decode.waiting("short") == 1)
        reply = await system.ask("hello")
        assert (reply.status, reply.error["code"]) == (429, "queue_full")
        assert int(reply.headers["Retry-After"]) >= 1
        await end(first)
        await waiting

    simulate(scenario)


def test_long_prompts_do_not_pass_a_full_queue_because_no_prefiller_is_up(simulate):
    async def scenario(lab):
        system, first = await busy(lab)
        await system.prefillers[0].stop()
        await lab.until(lambda: not system.router.services.prefill.usable())
        waiting = asyncio.create_task(system.answers())
        await lab.until(lambda: system.router.services.decode.waiting("long") == 1)
        assert (await system.ask()).status == 429
        await end(first)
        assert (await waiting).path == ("fallback", "no_prefiller")

    simulate(scenario)


def test_waiting_ends(simulate):
    async def scenario(lab):
        system, first = await busy(lab, limits={"queue_timeout_s": 0.3})
        reply = await system.ask("hello")
        assert (reply.status, reply.error["code"]) == (503, "queue_timeout")
        assert reply.headers["Retry-After"]
        await end(first)

    simulate(scenario)


def test_short_prompts_pass_long_ones_that_wait_for_a_prefiller(simulate, fault):
    async def scenario(lab):
        system = await lab.system(limits={"prefill_concurrency": 1, "decode_concurrency": 2})
        fault(system.prefillers[0], "slow_prefill", delay_s=1, requests=1)
        longs = [asyncio.create_task(system.answers()) for _ in range(5)]
        await lab.until(lambda: system.router.services.prefill.waiting("long") == 4)
        for _ in range(5):
            await system.answers("hello")
        assert not any(task.done() for task in longs)
        await asyncio.gather(*longs)

    simulate(scenario)


def test_a_short_prompt_takes_turns_with_long_ones_that_wait_for_a_decoder(simulate):
    async def scenario(lab):
        system = await lab.system(decode=SLOW, limits={"decode_concurrency": 1, "queue_length": 50})
        order = []

        async def ask(prompt):
            await system.answers(prompt)
            order.append(prompt)

        first = asyncio.create_task(system.ask("hello", **ENDLESS))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        longs = [asyncio.create_task(ask(f"long{number} " * 60)) for number in range(4)]
        await lab.until(lambda: system.router.services.decode.waiting("long") == 4)
        short = asyncio.create_task(ask("hello"))
        await lab.until(lambda: system.router.services.decode.waiting("short") == 1)
        await end(first)
        await asyncio.gather(*longs, short)
        assert order.index("hello") < 2

    simulate(scenario)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["hello", None])
def test_too_late_before_the_first_byte(simulate, fault, transport, stream, prompt):
    async def scenario(lab):
        system = await lab.system(
            transport, limits={"request_timeout_s": 0.7}, prefill={"kv_hold_timeout_s": 1}
        )
        fault(system.decoders[0], "slow_prefill", delay_s=3, requests=1)
        more = {"prompt": prompt} if prompt else {}
        reply = await system.ask(**more, stream=stream)
        assert (reply.status, reply.error["code"]) == (504, "request_timeout")
        # What was handed over is still to be freed, and the client has its answer all the same.
        assert bool(system.router.server.exchanges) == (prompt is None)
        await system.settled()

    simulate(scenario)


def test_too_late_in_a_stream(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, decode=SLOW, limits={"request_timeout_s": 1})
        reply = await system.ask(stream=True, **ENDLESS)
        assert (reply.status, reply.done, reply.error["code"]) == (200, False, "request_timeout")
        assert reply.text
        await system.settled()

    simulate(scenario)


KEYS = [
    {"tenant": name, "sha256": sha256(f"key-{name}".encode()).hexdigest(), "max_concurrent": 1}
    for name in ("a", "b")
]


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic key-a", "Bearer \udcff"])
def test_a_wrong_key_is_refused(simulate, header):
    async def scenario(lab):
        system = await lab.system(auth={"keys": KEYS})
        reader, writer = await asyncio.open_connection("127.0.0.1", system.router.port)
        raw = header.encode(errors="surrogateescape")
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"Authorization: %b\r\nContent-Length: 2\r\n\r\n{}" % raw
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"invalid_api_key" in answer

    simulate(scenario)


def test_a_tenant_at_its_limit_leaves_room_to_others(simulate):
    async def scenario(lab):
        system = await lab.system(auth={"keys": KEYS}, decode=SLOW)
        a, b = ({"Authorization": f"Bearer key-{name}"} for name in ("a", "b"))
        first = asyncio.create_task(system.ask("hello", headers=a, **ENDLESS))
        await lab.until(lambda: system.decoders[0].load.running == 1)
        reply = await system.ask("hello", headers=a)
        assert (reply.status, reply.error["code"]) == (429, "tenant_limit")
        assert reply.headers["Retry-After"]
        await system.answers("hello", headers=b)
        await end(first)
        await lab.until(lambda: not system.router.server.exchanges)
        await system.answers("hello", headers=a)

    simulate(scenario)
