"""LMCache's settings as the worker reads them, and the page size that the sizing takes from them."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.sizing.kv_cache import pd_buffer
from dpd.spec.deployment import build_deployment
from dpd.spec.engine_args import EngineArgs
from dpd.spec.lmcache import LmcacheSetting, chunk_tokens, lmcache_settings, whole_number


def engine(extra: object) -> EngineArgs:
    return EngineArgs({"kv-transfer-config": {"kv_connector_extra_config": extra}})


def test_variables_in_any_case_are_settings() -> None:
    found = lmcache_settings(
        {"LMCACHE_CHUNK_SIZE": "512", "lmcache_Pd_Role": "sender", "HOME": "/"}, EngineArgs()
    )
    assert found == {
        "chunk_size": LmcacheSetting("512", "LMCACHE_CHUNK_SIZE"),
        "pd_role": LmcacheSetting("sender", "lmcache_Pd_Role"),
    }


def test_the_transfer_configuration_overrides_variables() -> None:
    extra = {"lmcache.chunk_size": 128, "lmcache.nixl_backends": ["UCX", "GDS"], "backends": ["LIBFABRIC"]}
    assert lmcache_settings({"LMCACHE_CHUNK_SIZE": "512"}, engine(extra)) == {
        "chunk_size": LmcacheSetting("128", None),
        "nixl_backends": LmcacheSetting("UCX,GDS", None),
    }


@pytest.mark.parametrize("extra", [None, "text", ["lmcache.chunk_size"], 5])
def test_a_transfer_configuration_of_another_shape_holds_nothing(extra: object) -> None:
    assert lmcache_settings({}, engine(extra)) == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("256", 256),
        (" 8 ", 8),
        ("0", 0),
        ("-1", None),
        ("2.5", None),
        ("", None),
        ("²", None),
        ("9" * 10, None),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(("value", "tokens"), [("512", 512), ("0", 256), ("many", 256)])
def test_an_unusable_chunk_size_is_sized_as_the_default(facts: Facts, value: str, tokens: int) -> None:
    assert chunk_tokens({"LMCACHE_CHUNK_SIZE": value}, EngineArgs(), facts) == tokens


def test_buffer_and_pages_follow_the_chunk_size(workspace: Any, facts: Facts) -> None:
    for tokens in (256, 3000):
        deployment, page = loaded(workspace, facts, str(tokens)), 40_960 * tokens
        assert deployment.env["PD_BUFFER_SIZE"] == str(8 * 2**30 // page * page)
        assert pd_buffer(deployment.model, deployment.role("decode"), facts).page_bytes == page


def loaded(workspace: Any, facts: Facts, chunk: str) -> Any:
    workspace.reset()
    workspace.edit("llama", {"dpd.environment": {"LMCACHE_CHUNK_SIZE": chunk}})
    catalog = workspace.load()
    return build_deployment(catalog.environments["dev"].value, catalog.models["llama-3.3-70b"].value, facts)
