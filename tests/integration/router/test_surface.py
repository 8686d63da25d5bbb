"""What clients and operators see: routes, headers, counts, logs and traces."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dpd.router.config import WorkerEntry
from dpd.router.logs import JsonFormatter
from dpd.router.router import Router

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("path", ["/v1/completions", CHAT])
@pytest.mark.parametrize("stream", [False, True])
def test_a_long_prompt_says_who_worked(simulate, transport, path, stream):
    async def scenario(lab):
        system = await lab.system(transport)
        reply = await system.answers(path=path, stream=stream)
        assert reply.path == ("disaggregated", "long_prompt")
        assert reply.headers["x-dpd-prefiller"] == system.seen(system.prefillers[0]).name
        assert reply.headers["x-dpd-decoder"] == system.seen(system.decoders[0]).name
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize("path", ["/v1/completions", CHAT])
@pytest.mark.parametrize("stream", [False, True])
def test_a_short_prompt_goes_straight_to_a_decoder(simulate, transport, path, stream):
    async def scenario(lab):
        system = await lab.system(transport)
        reply = await system.answers("hello", path=path, stream=stream)
        assert reply.path == ("bypass", "short_prompt")
        assert "x-dpd-prefiller" not in reply.headers

    simulate(scenario)


def test_a_threshold_of_zero_disaggregates_everything(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport, routing={"threshold_tokens": 0})
        assert (await system.answers("a")).path == ("disaggregated", "long_prompt")
        await system.settled()

    simulate(scenario)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"n": 2, "temperature": 0.5, "seed": 1}, "several_choices"),
        ({"prompt": ["one " * 60, "two " * 60]}, "several_prompts"),
        ({"echo": True, "logprobs": 1}, "prompt_logprobs"),
    ],
)
def test_what_one_hand_over_cannot_feed(simulate, transport, more, reason):
    async def scenario(lab):
        system = await lab.system(transport)
        assert (await system.answers(**more)).path == ("bypass", reason)

    simulate(scenario)


def test_usage_and_log_probabilities_pass_through(simulate, transport):
    async def scenario(lab):
        system = await lab.system(transport)
        more = {"stream": True, "stream_options": {"include_usage": True}, "logprobs": 1}
        reply = await system.answers(**more)
        assert reply.path[0] == "disaggregated"
        events = [json.loads(event[6:]) for event in reply.raw.decode().split("\n\n")[:-2]]
        assert events[-1]["usage"]["completion_tokens"] == 8
        assert events[0]["choices"][0]["logprobs"]

    simulate(scenario)


def test_exact_counts_decide_where_characters_would_not(simulate):
    async def scenario(lab):
        prompt = "a " * 60
        by_characters = await lab.system(routing={"threshold_tokens": 50})
        assert (await by_characters.answers(prompt)).path[0] == "bypass"
        exact = await lab.system(routing={"threshold_tokens": 50, "count": "exact"})
        assert (await exact.answers(prompt)).path[0] == "disaggregated"

    simulate(scenario)


def test_without_a_tokenizer_characters_are_counted(simulate):
    async def scenario(lab):
        system = await lab.system(routing={"threshold_tokens": 50, "count": "exact"})
        # A list of prompts is nothing that a tokenizer takes.
        assert (await system.answers(prompt=["one " * 100, "two " * 100])).path == (
            "bypass",
            "several_prompts",
        )

    simulate(scenario)


def test_a_request_id_is_made_unique(simulate):
    async def scenario(lab):
        system = await lab.system()
        asked = (system.answers("hello", headers={"x-request-id": "mine"}) for _ in range(3))
        ids = {reply.headers["x-request-id"] for reply in await asyncio.gather(*asked)}
        assert len(ids) == 3
        assert all(one.startswith("mine-") for one in ids)
        strange = await system.answers("hello", headers={"x-request-id": "a b"})
        assert "a b" not in strange.headers["x-request-id"]

    simulate(scenario)


def test_models_and_tokenize_come_from_a_decoder(simulate):
    async def scenario(lab):
        system = await lab.system()
        status, models = await system.get("/v1/models")
        assert (status, json.loads(models)["data"][0]["id"]) == (200, "tiny")
        async with lab.session.post(system.url + "/tokenize", json={"prompt": "a b c"}) as response:
            assert (await response.json())["count"] == 3
        await system.decoders[0].stop()
        await lab.until(lambda: not system.router.services.decode.usable())
        status, body = await system.get("/v1/models")
        assert (status, json.loads(body)["error"]["code"]) == (503, "no_decode_worker")

    simulate(scenario)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("GET", CHAT, 405)])
def test_a_route_that_is_not_there(simulate, method, path, status):
    async def scenario(lab):
        system = await lab.system()
        got, body = await system.get(path)
        assert (got, json.loads(body)["error"]["code"]) == (status, "no_such_route")

    simulate(scenario)


def test_ready_while_a_decoder_is(simulate):
    async def scenario(lab):
        system = await lab.system()
        assert (await system.get("/health"))[0] == 200
        status, body = await system.get("/ready")
        assert (status, json.loads(body)["usable_workers"]) == (200, {"prefill": 1, "decode": 1})
        await system.prefillers[0].stop()
        await lab.until(lambda: not system.router.services.prefill.usable())
        assert (await system.get("/ready"))[0] == 200
        await system.decoders[0].stop()
        await lab.until(lambda: not system.router.services.decode.usable())
        assert (await system.get("/ready"))[0] == 503
        assert (await system.get("/health"))[0] == 200

    simulate(scenario)


def test_a_worker_that_never_came_up_says_why(simulate, caplog):
    async def scenario(lab):
        with caplog.at_level(logging.WARNING, "dpd.router.health"):
            system = await lab.system()
            decoder = system.seen(system.decoders[0])
            config = system.router.config
            nobody = "http://127.0.0.1:9"
            workers = config.workers.model_copy(update={"prefill": (WorkerEntry(url=nobody),)})
            config = config.model_copy(update={"workers": workers})
            async with Router(config) as router:
                await lab.until(lambda: all(one.checked for one in router.services.prefill.workers.values()))
                async with lab.session.get(f"http://127.0.0.1:{router.port}/debug/workers") as response:
                    rows = {row["url"]: row for row in (await response.json())["workers"]}
        assert rows[decoder.url]["why"] == ""
        assert "cannot be reached" in rows[nobody]["why"]
        told = [record for record in caplog.records if record.worker == nobody.removeprefix("http://")]
        assert ["cannot be reached" in record.why for record in told] == [True]

    simulate(scenario)


def test_workers_are_shown(simulate):
    async def scenario(lab):
        system = await lab.system("lmcache")
        shown = json.loads((await system.get("/debug/workers"))[1])
        assert (shown["transport"], shown["threshold_tokens"], shown["in_flight"]) == ("lmcache", 50, 0)
        assert {row["role"]: row["usable"] for row in shown["workers"]} == {"prefill": True, "decode": True}
        assert {row["running"] + row["pages"] for row in shown["workers"]} == {0}

    simulate(scenario)


def test_every_metric_moves(simulate, fault):
    async def scenario(lab):
        system = await lab.system("lmcache", lmcache={"notify_timeout_s": 0.2}, decode={"itl_ms": 1})
        await system.answers(stream=True)
        fault(system.prefillers[0], "lose_notification", requests=2)
        await system.answers()
        await system.settled()
        async with lab.session.post(system.url + "/v1/completions", data=b"{") as response:
            assert response.status == 400
        lines = (await system.get("/metrics"))[1].splitlines()
        samples = {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"
        }
        decoder = system.seen(system.decoders[0]).name
        prefiller = system.seen(system.prefillers[0]).name
        path = 'path="disaggregated"'
        for name in (
            f'requests_total{{code="200",{path},reason="long_prompt"}}',
            'requests_total{code="200",path="fallback",reason="prefill_failed"}',
            'rejected_total{code="malformed_json"}',
            f'worker_failures_total{{kind="no_notification",role="prefill",worker="{prefiller}"}}',
            'releases_total{outcome="released"}',
            f"ttft_seconds_count{{{path}}}",
            f"request_seconds_sum{{{path}}}",
            f"queue_seconds_sum{{{path}}}",
            f"prompt_tokens_sum{{{path}}}",
            "prefill_seconds_sum",
            "handoff_seconds_sum",
            "itl_seconds_count",
            f'worker_up{{role="decode",worker="{decoder}"}}',
        ):
            assert samples[f"dpd_router_{name}"] > 0, name
        for name in ("worker_running", "worker_pages"):
            assert samples[f'dpd_router_{name}{{role="decode",worker="{decoder}"}}'] == 0
        assert samples['dpd_router_waiting{length="short",role="decode"}'] == 0

    simulate(scenario)


def test_one_log_line_says_how_a_request_went(simulate, caplog):
    async def scenario(lab):
        system = await lab.system()
        with caplog.at_level(logging.INFO, logger="dpd.router"):
            reply = await system.answers()
        [record] = [one for one in caplog.records if one.message == "request"]
        line = json.loads(JsonFormatter().format(record))
        assert line["request_id"] == reply.headers["x-request-id"]
        assert (line["path"], line["reason"], line["status"]) == ("disaggregated", "long_prompt", 200)
        assert line["prompt_tokens"] > 50
        assert (line["prefiller"], line["decoder"]) == tuple(worker.name for worker in system.workers)
        prefill = ["admitted", "prefill_start", "prefilled", "handed_over"]
        assert list(line["ms"]) == [*prefill, "decode_start", "first_byte", "ended"]
        assert sorted(line["ms"].values()) == list(line["ms"].values())

    simulate(scenario)


class Collector:
    """Take OpenTelemetry's spans over HTTP."""

    def __init__(self):
        self.spans = []

    async def start(self, lab):
        app = web.Application()
        app.router.add_post("/v1/traces", self.take)
        runner = web.AppRunner(app)
        await runner.setup()
        lab.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def take(self, request):
        message = ExportTraceServiceRequest.FromString(await request.read())
        self.spans += [
            span
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return web.Response()


def test_a_request_is_a_trace_below_the_clients(simulate):
    async def scenario(lab):
        collector = Collector()
        endpoint = await collector.start(lab)
        system = await lab.system(telemetry={"otlp_endpoint": endpoint})
        trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        reply = await system.answers(headers={"traceparent": f"00-{trace}-{parent}-01"})
        flush = system.router.services.tracer._provider.force_flush
        await asyncio.get_running_loop().run_in_executor(None, flush)
        spans = {span.name: span for span in collector.spans}
        assert set(spans) == {"completion", "queue", "prefill", "hand-over", "decode"}
        assert {span.trace_id.hex() for span in collector.spans} == {trace}
        top = spans.pop("completion")
        assert top.parent_span_id.hex() == parent
        assert {span.parent_span_id for span in spans.values()} == {top.span_id}
        values = {one.key: one.value for one in top.attributes}
        assert values["dpd.path"].string_value == "disaggregated"
        assert values["dpd.request_id"].string_value == reply.headers["x-request-id"]

    simulate(scenario)
