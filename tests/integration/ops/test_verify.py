"""`verify` passes a system that works, and each way to sabotage one is found."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp
import pytest

from dpd.ops.openai_client import Question, ask
from dpd.ops.verify.report_text import report_lines
from dpd.ops.verify.verify import verify


def ids(report):
    return {finding.id for finding in report.findings}


def outcomes(report):
    return {check.name: check.outcome for check in report.checks}


def saw(report, name):
    return next(check.saw for check in report.checks if check.name == name)


def says(report, id):
    return " ".join(finding.text() for finding in report.findings if finding.id == id)


@pytest.mark.parametrize("transport", ["nixl", "lmcache"])
def test_a_system_that_works_passes_every_check(simulate, transport):
    report = simulate(lambda system: verify(system.target), transport)
    assert report.findings == []
    assert set(outcomes(report).values()) == {"passed"}
    assert list(outcomes(report)) == [
        *("ready", "roles", "hash_seed", "long_prompt", "short_prompt", "kv_transfer"),
        *("forms", "identity", "streaming"),
    ]


def test_the_report_says_what_was_seen(simulate):
    report = simulate(lambda system: verify(system.target))
    assert saw(report, "long_prompt") == "1024 tokens, disaggregated (long_prompt): prefill-0 -> decode-0"
    assert saw(report, "short_prompt") == "8 tokens, bypass (short_prompt): decode-0"
    assert saw(report, "kv_transfer").startswith("1024 tokens received, 2.0 MiB in ")
    assert saw(report, "identity") == "4 of 4 answers are those of the decoder alone"
    lines = report_lines(report)
    assert "SIMULATED" in lines[0]
    assert lines[-1] == "9 of 9 checks passed"


def test_a_prefiller_that_is_down(simulate):
    async def scenario(system):
        await system.prefiller.stop()
        await system.until(lambda: not system.router.services.prefill.usable())
        return await verify(system.target)

    report = simulate(scenario)
    assert ids(report) == {"VER001", "VER004", "VER011"}
    assert "reason no_prefiller" in says(report, "VER004")
    assert outcomes(report)["kv_transfer"] == "not judged"
    assert outcomes(report)["identity"] == "passed"


def test_a_threshold_above_the_prompt(simulate):
    report = simulate(lambda system: verify(system.target), threshold_tokens=10_000)
    assert ids(report) == {"VER001", "VER004"}
    assert "took a prompt of 1024 tokens the path bypass, reason short_prompt" in says(report, "VER004")


def test_a_threshold_under_every_prompt(simulate):
    report = simulate(lambda system: verify(system.target), threshold_tokens=0)
    assert ids(report) == {"VER001", "VER005"}
    assert "took a prompt of 8 tokens the path disaggregated" in says(report, "VER005")


def test_a_decoder_that_ignores_the_kv_cache(simulate):
    async def scenario(system):
        system.fault(system.decoder, "ignore_kv")
        return await verify(system.target)

    report = simulate(scenario)
    assert ids(report) == {"VER006", "VER007"}
    assert "received KV cache for 0 of the prompt's 1024 tokens, computed 1024" in says(report, "VER006")
    assert outcomes(report)["long_prompt"] == outcomes(report)["identity"] == "passed"


def test_transfers_that_fail(simulate):
    async def scenario(system):
        system.fault(system.prefiller, "wrong_engine_id")
        return await verify(system.target)

    report = simulate(scenario, decode={"kv_load_failure_policy": "recompute"})
    assert ids(report) == {"VER006", "VER007"}
    assert "1 NIXL transfers failed" in says(report, "VER007")


def test_wrong_text(simulate):
    async def scenario(system):
        # The long prompt, the short one, and the first that is asked of router and decoder.
        system.fault(system.decoder, "wrong_text", requests=3)
        return await verify(system.target)

    report = simulate(scenario)
    assert ids(report) == {"VER008"}
    assert saw(report, "identity") == "3 of 4 answers are those of the decoder alone"


def test_hash_seeds_that_differ(simulate):
    async def scenario(system):
        prefiller, decoder = system.target.workers
        decoder = replace(decoder, variables={"PYTHONHASHSEED": "1"})
        return await verify(system.told(workers=(prefiller, decoder)))

    report = simulate(scenario, "lmcache", decode={"hash_seed": 1})
    assert ids(report) == {"VER003", "VER006"}
    assert "PYTHONHASHSEED prefill-0: 0, decode-0: 1" in says(report, "VER003")


def test_hash_seeds_that_are_random_on_real_engines(simulate):
    async def scenario(system):
        workers = [replace(worker, variables={}) for worker in system.target.workers]
        return await verify(system.told(workers=tuple(workers), engine="vllm"))

    assert ids(simulate(scenario)) == {"VER003"}


def test_a_router_with_swapped_roles(simulate):
    report = simulate(lambda system: verify(system.target), swapped=True)
    assert {"VER001", "VER004"} <= ids(report)
    assert "the router uses it as decode" in says(report, "VER001")
    assert "says in x-dpd-prefiller that decode-0 did the prefill" in says(report, "VER004")


def test_processes_with_swapped_arguments(simulate):
    async def scenario(system):
        prefiller, decoder = system.target.workers
        swapped = (
            replace(prefiller, arguments=decoder.arguments),
            replace(decoder, arguments=prefiller.arguments),
        )
        return await verify(system.told(workers=swapped))

    report = simulate(scenario)
    assert ids(report) == {"VER002"}
    assert "prefill-0: its arguments make it decode, configured is prefill" in says(report, "VER002")


def test_a_process_without_a_connector(simulate):
    async def scenario(system):
        prefiller, decoder = system.target.workers
        return await verify(system.told(workers=(prefiller, replace(decoder, arguments=("--port", "1")))))

    assert "decode-0: its arguments have no KV connector" in says(simulate(scenario), "VER002")


def test_workers_of_another_model(simulate):
    report = simulate(lambda system: verify(system.told(model="other")))
    assert "prefill-0: it serves tiny, configured is other" in says(report, "VER002")


def test_fewer_workers_than_configured(simulate):
    report = simulate(lambda system: verify(system.told(replicas={"prefill": 2, "decode": 1})))
    assert ids(report) == {"VER001"}
    assert "prefill: 1 are deployed, configured are 2" in says(report, "VER001")


def test_a_proxy_that_holds_streams_back(simulate):
    async def scenario(system):
        return await verify(await system.behind_a_proxy())

    report = simulate(scenario)
    assert ids(report) == {"VER009"}
    assert "a stream of 32 tokens came as a burst" in says(report, "VER009")


def test_streams_that_break(simulate):
    async def scenario(system):
        system.fault(system.decoder, "die_mid_stream")
        return await verify(system.target)

    report = simulate(scenario)
    assert {"VER002", "VER010"} <= ids(report)
    assert "a chat, streamed was not answered" in says(report, "VER010")


def test_a_router_that_is_down(simulate):
    report = simulate(lambda system: verify(system.told(router_url="http://127.0.0.1:9")))
    assert ids(report) == {"VER011"}
    assert outcomes(report) == {"ready": "failed", "roles": "failed", "hash_seed": "passed"}


def test_a_decoder_that_is_down(simulate):
    async def scenario(system):
        await system.decoder.stop()
        await system.until(lambda: not system.router.services.decode.usable())
        return await verify(system.target)

    report = simulate(scenario)
    assert ids(report) == {"VER001", "VER011"}
    assert "/ready answers 503" in says(report, "VER011")
    assert "decode-0: the router does not use it" in says(report, "VER001")


def test_other_traffic_is_a_warning(simulate):
    async def scenario(system):
        async def chatter():
            async with aiohttp.ClientSession() as session:
                question = Question("hello", 4)
                while True:
                    await ask(session, system.target.router_url, "tiny", question, timeout_s=60)

        others = asyncio.create_task(chatter())
        report = await verify(system.target)
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
        return report

    report = simulate(scenario)
    assert [(finding.id, finding.severity) for finding in report.findings] == [("VER012", "warning")]


def test_one_pool_for_everything_has_no_path_to_follow(simulate):
    async def scenario(system):
        _, decoder = system.target.workers
        workers = (replace(decoder, role="worker", name="worker-0", arguments=()),)
        return await verify(system.told(replicas={"worker": 1}, workers=workers))

    report = simulate(scenario, threshold_tokens=64)
    assert report.findings == []
    assert list(outcomes(report)) == ["ready", "roles", "hash_seed", "forms", "identity", "streaming"]
