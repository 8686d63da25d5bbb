"""Corners of HTTP between router and worker, shown by a worker that writes its answers byte by byte."""

from __future__ import annotations

import asyncio

import pytest

JSON = b'{"choices": [{"text": "right"}]}'
EVENT = b'data: {"choices": [{"text": "right"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def whole(body=JSON, kind=b"application/json"):
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)


def chunked(*parts):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


END = b"0\r\n\r\n"


class Cut(bytes):
    """Bytes after which the connection ends."""


class RawWorker:
    """Be healthy, and give each completion the next of ``answers``."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET /health"):
                    writer.write(whole(b"{}"))
                    continue
                length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
                self.requests.append(head + await reader.readexactly(int(length.split()[1])))
                answer = self.answers.pop(0)
                writer.write(answer)
                if isinstance(answer, Cut):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def front(lab, *answers, **config):
    """Return a system whose only decoder is a raw worker, and that worker."""
    raw = RawWorker(*answers)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    lab.stack.callback(server.close)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    return await lab.system(prefillers=0, decoders=0, workers={"decode": [url]}, **config), raw


def test_a_connection_that_the_worker_closed_meanwhile(simulate):
    async def scenario(lab):
        system, raw = await front(lab, whole(), Cut(), whole())
        for _ in range(2):
            assert (await system.ask("hello")).text == "right"
        assert len(raw.requests) == 3

    simulate(scenario)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Cut(chunked()), id="connection ends"),
        pytest.param(chunked() + END, id="no events"),
        pytest.param(chunked(b'data: {"error": {"code": 500}}\n\n', DONE) + END, id="error first"),
        pytest.param(Cut(whole()[:-5]), id="half an answer"),
        pytest.param(Cut(b"HTTP/1.1 200 OK\r\nContent-Le"), id="half a header"),
        pytest.param(Cut(b"nonsense\r\n\r\n"), id="no HTTP"),
        pytest.param(Cut(chunked(EVENT) + b"zz\r\n"), id="no chunk"),
        pytest.param(whole(JSON[:-3]), id="half of JSON"),
    ],
)
def test_before_the_first_byte_it_is_asked_again(simulate, broken):
    async def scenario(lab):
        system, _ = await front(lab, broken, chunked(EVENT, DONE) + END)
        reply = await system.ask("hello", stream=True)
        assert (reply.status, reply.text, reply.done) == (200, "right", True)

    simulate(scenario)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Cut(chunked(EVENT)), id="connection ends"),
        pytest.param(chunked(EVENT) + END, id="no DONE"),
        pytest.param(Cut(chunked(EVENT, EVENT[:20])), id="half an event"),
    ],
)
def test_after_it_the_last_event_is_an_error(simulate, broken):
    async def scenario(lab):
        system, _ = await front(lab, broken)
        async with system.post("hello", stream=True) as response:
            assert response.status == 200
            events = (await response.read()).split(b"\n\n")
        assert events[0] == EVENT.rstrip()
        assert events[-1] == b""
        assert events[-2].startswith(b'data: {"error":')
        assert b'"decode_broken"' in events[-2]

    simulate(scenario)


def test_an_end_in_pieces_is_an_end(simulate):
    async def scenario(lab):
        system, _ = await front(lab, chunked(EVENT, b"data: [DO", b"NE]\n", b"\n") + END)
        assert (await system.ask("hello", stream=True)).done

    simulate(scenario)


def test_a_stream_that_the_worker_answers_in_one_piece_passes_through(simulate):
    async def scenario(lab):
        system, _ = await front(lab, whole())
        reply = await system.ask("hello", stream=True)
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.raw == JSON

    simulate(scenario)


def test_the_body_passes_through_as_it_is(simulate):
    async def scenario(lab):
        system, raw = await front(lab, whole())
        body = b' {"prompt" : "hello",\n "unknown": 1.50}'
        headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        async with lab.session.post(system.url + "/v1/completions", data=body, headers=headers) as response:
            request_id = response.headers["x-request-id"]
        head, _, sent = raw.requests[0].partition(b"\r\n\r\n")
        assert sent == body
        assert f"x-request-id: {request_id}".encode() in head.lower()
        assert headers["traceparent"].encode() in head
        assert b"accept-encoding" not in head.lower()

    simulate(scenario)


def test_a_redirect_is_not_followed(simulate):
    async def scenario(lab):
        moved = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 2\r\n\r\n{}"
        system, _ = await front(lab, moved)
        async with system.post("hello") as response:
            assert response.status == 502

    simulate(scenario)
