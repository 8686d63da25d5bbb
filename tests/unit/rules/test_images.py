"""IMG: worker images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

HYPERPOD = "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1"

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "IMG001 P-60 latest": (
        "IMG001",
        {"llama": {"serving.image": "lmcache/vllm-openai:latest"}},
        "serving.image",
        ["lmcache/vllm-openai:latest", "no tag that stays"],
        {"llama": {"serving.image": HYPERPOD}},
    ),
    "IMG001 P-62 nightly build": (
        "IMG001",
        {"llama": {"serving.image": "vllm/vllm-openai:v0.20-nightly"}},
        "serving.image",
        ["nightly"],
        {"llama": {"serving.image": "hyperpod-dlc"}},
    ),
    "IMG001 no tag behind a port": (
        "IMG001",
        {"llama": {"serving.image": "registry:5000/vllm"}},
        "serving.image",
        ["registry:5000/vllm"],
        {"llama": {"serving.image": "hyperpod-dlc"}},
    ),
    "IMG001 misspelt key of the facts": (
        "IMG001",
        {"llama": {"serving.image": "hyperpod-dcl"}},
        "serving.image",
        ["hyperpod-dlc", "lmcache-v0.4.3"],
        {"llama": {"serving.image": "hyperpod-dlc"}},
    ),
    "IMG001 digest that is none": (
        "IMG001",
        {"llama": {"serving.image": "registry.example.com/vllm@sha256:abc"}},
        "serving.image",
        ["no tag that stays"],
        {"llama": {"serving.image": "hyperpod-dlc"}},
    ),
    "IMG002 P-63 unknown image": (
        "IMG002",
        {"llama": {"serving.image": "registry.example.com/vllm:1.0"}},
        "serving.image",
        ["registry.example.com/vllm:1.0", "not in the compatibility facts"],
        {"llama": {"serving.image": HYPERPOD}},
    ),
    "IMG004 P-35 no libfabric in it": (
        "IMG004",
        {"llama": {"serving.image": "lmcache-v0.4.3"}},
        "serving.image",
        ["docker.io/lmcache/vllm-openai:v0.4.3", "libfabric"],
        {"llama": {"serving.image": "lmcache-v0.4.3", "serving.mode": "colocated"}},
    ),
    "IMG005 P-62 no LMCache in it": (
        "IMG005",
        {"llama": {"serving.image": "dlc-vllm-v2.3"}},
        "serving.image",
        ["not known to hold LMCache"],
        {"llama": {"serving.image": "hyperpod-dlc"}},
    ),
    "IMG003 P-62 protected by tag": (
        "IMG003",
        {"prod": {"accept": ...}},
        "serving.image",
        ["has no digest", "by digest"],
        {"prod": {}},
    ),
}


@pytest.mark.parametrize(("id", "bad", "path", "says", "good"), CASES.values(), ids=CASES.keys())
def test_rule(
    one_rule: Callable[..., None],
    id: str,
    bad: dict[str, Any],
    path: str,
    says: list[str],
    good: dict[str, Any],
) -> None:
    one_rule(id, bad, path, says, good)


def test_a_known_image_by_digest_is_right_everywhere(check: Callable[..., list[Any]]) -> None:
    prod = {"accept": ..., "hyperpod.chart_archive_sha256": "0" * 64}
    assert check(prod=prod, llama={"serving.image": f"{HYPERPOD}@sha256:{'0' * 64}"}) == []


def test_a_missing_digest_is_an_error_until_somebody_accepts_it(check: Callable[..., list[Any]]) -> None:
    found = {item.id: item for item in check(prod={"accept": ...})}
    assert found["IMG003"].severity == "error"
    found = {item.id: item for item in check(prod={})}
    assert found["IMG003"].severity == "warning"
    assert found["IMG003"].accepted.startswith("the registry's digest is not known")
