"""Prefill and decode on real engines: KV cache moves, answers do not change, processes come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpd.local import loopback
from dpd.local.home import find_home
from dpd.local.models import generate
from dpd.local.status import status
from dpd.local.system import LocalSystem
from dpd.spec.catalog import Catalog
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment, build_local_deployment

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 120
START_TIMEOUT_S = 240
TEXT = (ROOT / "LICENSE").read_text(encoding="utf-8")
LONG, SHORT = TEXT[:3000], TEXT[:200]


def complete(url: str, prompt: str, tokens: int = 32) -> dict[str, Any]:
    body = {"model": "tiny-llama", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    return json.loads(loopback.fetch(f"{url}/v1/completions", timeout_s=ANSWER_TIMEOUT_S, body=body))


def text(url: str, prompt: str, tokens: int = 32) -> str:
    return complete(url, prompt, tokens)["choices"][0]["text"]


def transferred_tokens(system: LocalSystem) -> float:
    """Return how many prompt tokens the decoder has taken from a prefiller."""
    metrics = loopback.fetch(f"{system.by_role('decode')[0].url}/metrics", timeout_s=ANSWER_TIMEOUT_S)
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "vllm:prompt_tokens_by_source_total"
        and sample.labels["source"] == "external_kv_transfer"
    )


@pytest.fixture(autouse=True)
def healthy(system: LocalSystem) -> Iterator[None]:
    """Leave every test a system in which everything runs and is used."""
    system.wait_ready(timeout_s=START_TIMEOUT_S)
    system.wait_routed(timeout_s=START_TIMEOUT_S)
    return


def test_a_long_prompt_is_computed_by_the_prefiller_alone(system: LocalSystem) -> None:
    before = transferred_tokens(system)
    usage = complete(system.router_url, LONG)["usage"]
    assert transferred_tokens(system) - before == usage["prompt_tokens"]


def test_a_short_prompt_stays_with_the_decoder(system: LocalSystem) -> None:
    before = transferred_tokens(system)
    complete(system.router_url, SHORT)
    assert transferred_tokens(system) == before


def test_answers_are_those_of_the_decoder_alone(system: LocalSystem) -> None:
    prompts = [f"{number} {TEXT[number * 50 : number * 50 + 1500 + number * 40]}" for number in range(16)]
    decoder = system.by_role("decode")[0].url
    with ThreadPoolExecutor(4) as pool:
        routed = list(pool.map(lambda prompt: text(system.router_url, prompt), prompts))
        alone = list(pool.map(lambda prompt: text(decoder, prompt), prompts))
    assert routed == alone


def test_an_answer_depends_on_the_first_letter_of_a_long_prompt(system: LocalSystem) -> None:
    assert text(system.router_url, f"X{LONG[1:]}") != text(system.router_url, LONG)


def test_an_answer_is_varied_and_as_long_as_asked(system: LocalSystem) -> None:
    answer = complete(system.router_url, LONG, tokens=64)
    assert answer["usage"]["completion_tokens"] == 64
    assert len(set(answer["choices"][0]["text"].split())) > 16


def test_status_shows_every_process_and_path(system: LocalSystem) -> None:
    shown, findings = status(system)
    assert findings == []
    assert [row.role for row in shown.processes] == ["prefill", "decode", "router"]
    assert {"bypass", "disaggregated"} <= shown.requests_by_path.keys()


def test_the_model_has_the_same_bytes_each_time(
    system: LocalSystem, catalog: Catalog, tmp_path: Path
) -> None:
    command = system.by_role("prefill")[0].spec.command
    served = Path(command[command.index("--model") + 1])
    generate(_deployment(catalog), tmp_path / "again", find_home())
    for file in served.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


def _deployment(catalog: Catalog) -> LocalDeployment:
    environment, model = catalog.environments["local"].value, catalog.models["tiny-llama"].value
    assert isinstance(environment, LocalEnvironment)
    assert model is not None
    assert catalog.facts is not None
    return build_local_deployment(environment, model, catalog.facts)


def test_a_killed_prefiller_comes_back_and_is_used_again(system: LocalSystem) -> None:
    restarts = system.process("prefill-0").state.restarts
    expected = text(system.router_url, LONG)
    system.kill("prefill-0")
    assert text(system.router_url, LONG) == expected
    while system.process("prefill-0").state.restarts == restarts:
        assert system.runs
    system.wait_ready(timeout_s=START_TIMEOUT_S)
    system.wait_routed(timeout_s=START_TIMEOUT_S)
    before = transferred_tokens(system)
    assert text(system.router_url, LONG) == expected
    assert transferred_tokens(system) > before
