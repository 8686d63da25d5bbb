import asyncio
import contextlib
import logging
import socket

import pytest

from dpd.router.config import RouterConfig
from dpd.router.discovery import build_source
from dpd.router.discovery.dns import DnsLookups
from dpd.router.discovery.kubernetes import EndpointSliceWatch
from dpd.router.worker import Endpoint, Role

LMCACHE = {"pages_per_decoder": 1024, "receiver_init_ports": [7300], "receiver_alloc_ports": [7400]}


def config(workers, **sections):
    return RouterConfig.model_validate({"workers": workers, **sections})


def published(source, enough):
    """Run `source` until `enough` of what it published is true; return all of it."""
    seen = []

    async def run():
        async with asyncio.timeout(20):
            task = asyncio.create_task(source.run(lambda role, endpoints: seen.append((role, endpoints))))
            while not enough(seen) and not task.done():
                await asyncio.sleep(0.002)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())
    return seen


def static(workers, **sections):
    return dict(published(build_source(config(workers, **sections)), lambda seen: len(seen) == 2))


def test_static_workers_are_published_once_for_each_role():
    found = static({"prefill": ["http://p:1", "http://p:2"], "decode": ["http://d:1"]})
    assert found == {
        Role.PREFILL: {Endpoint("http://p:1"), Endpoint("http://p:2")},
        Role.DECODE: {Endpoint("http://d:1")},
    }


def test_a_decoder_takes_the_shared_receiver_ports_unless_it_has_its_own():
    own = {"url": "http://d:2", "receiver_host": "10.0.0.9", "receiver_init_ports": [7310]}
    found = static(
        {"prefill": ["http://p:1"], "decode": ["http://d:1", own]}, transport="lmcache", lmcache=LMCACHE
    )
    assert found[Role.DECODE] == {
        Endpoint("http://d:1", "", (7300,), (7400,)),
        Endpoint("http://d:2", "10.0.0.9", (7310,), (7400,)),
    }
    assert found[Role.PREFILL] == {Endpoint("http://p:1")}


def test_a_prefiller_takes_the_shared_kv_event_ports_unless_it_has_its_own():
    own = {"url": "http://p:2", "kv_events": "tcp://e:1", "kv_events_replay": "tcp://e:2"}
    found = static(
        {
            "prefill": ["http://[fd00::1]:1", own],
            "decode": ["http://d:1"],
            "kv_events_port": 5557,
            "kv_events_replay_port": 5558,
        }
    )
    assert found[Role.PREFILL] == {
        Endpoint(
            "http://[fd00::1]:1", kv_events="tcp://[fd00::1]:5557", kv_events_replay="tcp://[fd00::1]:5558"
        ),
        Endpoint("http://p:2", kv_events="tcp://e:1", kv_events_replay="tcp://e:2"),
    }
    assert found[Role.DECODE] == {Endpoint("http://d:1")}


DNS = config(
    {
        "source": "dns",
        "dns": {"prefill_name": "prefill", "decode_name": "decode", "port": 8000, "interval_s": 0.001},
    }
)
EMPTY = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
BROKEN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def answer(monkeypatch):
    """Return a way to say what the lookups of `prefill` answer, the last one again and again."""

    def script(*answers):
        left = list(answers)

        def look_up(name, *_):
            if name != "prefill":
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.1.0.9", 0))]
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return [
                (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0))
                for one in answer
            ]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return script


def prefillers(enough):
    def of(seen):
        return [sorted(one.name for one in endpoints) for role, endpoints in seen if role is Role.PREFILL]

    return of(published(build_source(DNS), lambda seen: enough(of(seen))))


def test_dns_finds_both_roles_on_the_configured_port(answer):
    answer(["10.1.0.1"])
    seen = published(build_source(DNS), lambda seen: len(seen) == 2)
    assert dict(seen) == {
        Role.PREFILL: {Endpoint("http://10.1.0.1:8000")},
        Role.DECODE: {Endpoint("http://10.1.0.9:8000")},
    }


def test_dns_publishes_changes_alone(answer):
    answer(["a"], ["a"], ["a", "b"], ["b", "a"], ["b"])
    assert prefillers(lambda sets: len(sets) == 3) == [["a:8000"], ["a:8000", "b:8000"], ["b:8000"]]


def test_an_ipv6_address_is_bracketed(answer):
    answer(["fd00::1"])
    assert prefillers(bool) == [["[fd00::1]:8000"]]


def test_a_pod_with_two_addresses_is_one_worker(answer):
    answer(["fd00::1", "10.1.0.1"])
    assert prefillers(bool) == [["10.1.0.1:8000"]]


def test_failed_lookups_keep_the_workers_and_are_said_once(answer, caplog):
    answer(["a"], *[BROKEN] * 20, ["b"])
    with caplog.at_level(logging.WARNING):
        assert prefillers(lambda sets: len(sets) == 2) == [["a:8000"], ["b:8000"]]
    assert [record.message for record in caplog.records] == ["DNS lookup failed"]


def test_two_empty_answers_keep_the_workers(answer):
    answer(["a"], EMPTY, EMPTY, ["a"], EMPTY, EMPTY, ["b"])
    assert prefillers(lambda sets: len(sets) == 2) == [["a:8000"], ["b:8000"]]


def test_a_third_empty_answer_in_a_row_is_believed(answer):
    answer(["a"], EMPTY, BROKEN, EMPTY, EMPTY)
    assert prefillers(lambda sets: len(sets) == 2) == [["a:8000"], []]


def test_each_source_is_built_by_its_name():
    kubernetes = {
        "prefill_service": "p",
        "decode_service": "d",
        "api_server": "http://127.0.0.1:9",
        "namespace": "default",
    }
    assert isinstance(build_source(DNS), DnsLookups)
    assert isinstance(
        build_source(config({"source": "kubernetes", "kubernetes": kubernetes})), EndpointSliceWatch
    )
