"""Seven mistakes that people make: each gives exactly one finding, which names what it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpd.finding import Finding, Severity

CASES = {
    "misspelt key": (
        {"llama": {"dpd.routing": {"treshold": 4096}}},
        "CFG001",
        ["treshold", "threshold_tokens"],
    ),
    "P-27 instance type without EFA": (
        {"dev": {"hyperpod.groups.decode.instance_type": "ml.g6e.48xlarge"}},
        "CAP006",
        ["ml.g6e.48xlarge", "ml.p5.48xlarge", "ml.p5en.48xlarge", "ml.p6-b200.48xlarge"],
    ),
    "P-20 operator without DPD": (
        {"dev": {"operator.addon_version": "v1.2.0-eksbuild.1"}},
        "OPR001",
        ["v1.2.0-eksbuild.1", "v1.3.0-eksbuild.1"],
    ),
    "P-60 floating tag": (
        {"llama": {"serving.image": "docker.io/lmcache/vllm-openai:latest"}},
        "IMG001",
        ["docker.io/lmcache/vllm-openai:latest", "hyperpod-dlc"],
    ),
    "P-16 too few addresses": (
        {
            "dev": {
                "hyperpod.groups.prefill.count": 2,
                "hyperpod.groups.decode.count": 2,
                "network.gpu_subnet_cidr": "10.1.0.0/24",
            }
        },
        "NET001",
        ["2 x ml.p5.48xlarge", "10.1.0.0/24", "251", "/23"],
    ),
    "P-51 prompt larger than the buffer": (
        {"llama": {"serving.tensor_parallel": 4, "serving.max_model_len": 131072, "dpd.pd_buffer": "8GiB"}},
        "KVC001",
        ["10737418240", "8589934592", "104704", "10GiB"],
    ),
    "P-47 random hash seed": (
        {"llama": {"dpd.environment": {"PYTHONHASHSEED": "random"}}},
        "SRV001",
        ["PYTHONHASHSEED", "random"],
    ),
}


@pytest.mark.parametrize(("edits", "id", "names"), CASES.values(), ids=CASES.keys())
def test_one_mistake_gives_one_error_that_names_it(
    check: Callable[..., list[Finding]], edits: dict[str, Any], id: str, names: list[str]
) -> None:
    findings = check(**edits)
    assert [finding.id for finding in findings] == [id], [finding.text() for finding in findings]
    assert findings[0].severity == Severity.ERROR
    for name in names:
        assert name in findings[0].text()


def test_the_repository_itself_is_clean(check: Callable[..., list[Finding]]) -> None:
    assert check() == []


def test_kvc001_reads_as_the_contract_says(check: Callable[..., list[Finding]]) -> None:
    edits = {"serving.tensor_parallel": 4, "serving.max_model_len": 131072, "dpd.pd_buffer": "8GiB"}
    (finding,) = check(llama=edits)
    assert replace(finding, file="config/models/llama.yaml", line=None).text() == (
        "config/models/llama.yaml: dpd.pd_buffer: one 131072-token prompt needs 10737418240 bytes per rank, "
        "got 8589934592; raise it to 10GiB or set serving.max_model_len to 104704 or less [KVC001]"
    )
