"""Every way in which an answer can end is told from every other."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from dpd.ops.openai_client import Question, ask

STREAM = Question("hello", 4, stream=True)
WHOLE = Question("hello", 4)
ERROR = b'data: {"error": {"message": "decode failed"}}\n\n'
DONE = b"data: [DONE]\n\n"


def piece(text, finish=None):
    return b"data: %b\n\n" % json.dumps({"choices": [{"text": text, "finish_reason": finish}]}).encode()


def answered(question, *parts, status=200, content_type="text/event-stream", cut=False, timeout_s=60):
    """Return what a client makes of these bytes; ``cut`` breaks the connection after them."""

    async def serve(request):
        response = web.StreamResponse(status=status, headers={"Content-Type": content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0.01)
        if timeout_s < 1:
            await asyncio.sleep(60)
        if cut:
            request.transport.abort()
        return response

    async def main():
        app = web.Application()
        app.router.add_post("/v1/completions", serve)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session:
            answer = await ask(session, url, "tiny", question, timeout_s=timeout_s)
        await runner.cleanup()
        return answer

    return asyncio.run(main())


def test_a_whole_stream():
    answer = answered(STREAM, piece("one"), piece(" two", "length"), DONE)
    assert (answer.text, answer.finish_reason, answer.complete) == ("one two", "length", True)
    assert len(answer.arrivals_s) == 2


def test_an_event_that_comes_in_parts():
    whole = piece("one", "stop") + DONE
    answer = answered(STREAM, whole[:17], whole[17:])
    assert (answer.text, answer.complete) == ("one", True)


def test_a_whole_answer():
    body = {"choices": [{"text": "one", "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}
    answer = answered(WHOLE, json.dumps(body).encode(), content_type="application/json")
    assert (answer.text, answer.prompt_tokens, answer.complete) == ("one", 7, True)


def test_a_chat_is_read_from_its_message():
    body = {"choices": [{"message": {"content": "one"}, "finish_reason": "stop"}]}
    answer = answered(WHOLE, json.dumps(body).encode(), content_type="application/json")
    assert (answer.text, answer.complete) == ("one", True)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((piece("one", "stop"),), "the stream ended without [DONE]"),
        ((piece("one"), DONE), "it ended early"),
        ((piece("one"), b"\n\n", ERROR), "status 200: decode failed"),
        ((b"data: {oops\n\n", DONE), "status 200 and no JSON: '{oops'"),
    ],
)
def test_a_stream_that_is_not_whole(parts, problem):
    answer = answered(STREAM, *parts)
    assert not answer.complete
    assert answer.problem == problem


def test_an_error_body():
    body = b'{"error": {"message": "queue full", "code": "queue_full"}}'
    answer = answered(STREAM, body, status=429, content_type="application/json")
    assert (answer.complete, answer.problem) == (False, "status 429: queue full")


def test_an_error_that_is_no_openai_error():
    answer = answered(WHOLE, b"Bad Gateway", status=502, content_type="text/html")
    assert answer.problem == "status 502 and no JSON: 'Bad Gateway'"


def test_a_connection_that_breaks():
    answer = answered(STREAM, piece("one"), cut=True)
    assert (answer.text, answer.complete) == ("one", False)
    assert answer.problem.startswith("the connection broke: ")


def test_an_answer_without_an_end():
    answer = answered(STREAM, piece("one"), timeout_s=0.5)
    assert (answer.text, answer.problem) == ("one", "no end within 0.5 s")


def test_a_connection_that_nobody_takes():
    async def main():
        async with aiohttp.ClientSession() as session:
            return await ask(session, "http://127.0.0.1:9", "tiny", WHOLE, timeout_s=60)

    answer = asyncio.run(main())
    assert answer.refused
    assert answer.problem.startswith("no connection: ")
