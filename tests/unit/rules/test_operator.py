"""OPR: the inference operator and its add-on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "OPR001 P-20 no DPD yet": (
        "OPR001",
        {"dev": {"operator.addon_version": "v1.2.1-eksbuild.1"}},
        "operator.addon_version",
        ["v1.2.1-eksbuild.1", "v1.3.0-eksbuild.1 or later"],
        {"dev": {"operator.addon_version": "v1.4.0-eksbuild.1"}},
    ),
    "OPR001 old and not full": (
        "OPR001",
        {"dev": {"operator.addon_version": "1.2"}},
        "operator.addon_version",
        ["1.2 has no"],
        {"dev": {"operator.addon_version": "v1.5.0-eksbuild.1"}},
    ),
    "OPR002 P-18 absent": (
        "OPR002",
        {"dev": {"operator": {}}},
        "operator.addon_version",
        ["not pinned", "v1.4.0-eksbuild.1"],
        {"dev": {"operator": {"addon_version": "v1.4.0-eksbuild.1"}}},
    ),
    "OPR002 P-18 floating": (
        "OPR002",
        {"dev": {"operator.addon_version": "latest"}},
        "operator.addon_version",
        ["not pinned"],
        {"dev": {}},
    ),
    "OPR002 without its build": (
        "OPR002",
        {"dev": {"operator.addon_version": "v1.4.0"}},
        "operator.addon_version",
        ["not pinned"],
        {"dev": {}},
    ),
    "OPR002 first release with DPD, without its build": (
        "OPR002",
        {"dev": {"operator.addon_version": "v1.3.0"}},
        "operator.addon_version",
        ["not pinned"],
        {"dev": {}},
    ),
    "OPR002 major and minor only": (
        "OPR002",
        {"dev": {"operator.addon_version": "v1.3"}},
        "operator.addon_version",
        ["not pinned"],
        {"dev": {}},
    ),
    "OPR003 P-20 known defects": (
        "OPR003",
        {"dev": {"operator.addon_version": "v1.3.0-eksbuild.1"}},
        "operator.addon_version",
        ["503", "fixed in v1.4.0"],
        {"dev": {"operator.addon_version": "v1.4.0-eksbuild.1"}},
    ),
    "OPR004 P-30 role name": (
        "OPR004",
        {"dev": {"operator.execution_role_name": "InferenceRole"}},
        "operator.execution_role_name",
        ["InferenceRole", "SageMakerHyperPodInference"],
        {"dev": {"operator.execution_role_name": "SageMakerHyperPodInference-dev"}},
    ),
    "OPR004 P-31 bucket name": (
        "OPR004",
        {"dev": {"operator.tls_bucket": "certificates"}},
        "operator.tls_bucket",
        ["hyperpod-tls-"],
        {"dev": {"operator.tls_bucket": "hyperpod-tls-certificates"}},
    ),
    "OPR005 P-12 lifecycle bucket": (
        "OPR005",
        {"dev": {"hyperpod.lifecycle_bucket": "scripts"}},
        "hyperpod.lifecycle_bucket",
        ["sagemaker-"],
        {"dev": {"hyperpod.lifecycle_bucket": "sagemaker-scripts"}},
    ),
    "OPR006 two decoders": (
        "OPR006",
        {"dev": {"hyperpod.groups.decode.count": 2}, "llama": {"dpd.decode.replicas": 2}},
        "dpd.decode.replicas",
        ["one decode replica", "got 2"],
        {"dev": {"hyperpod.groups.decode.count": 2}, "llama": {"dpd.decode.replicas": 1}},
    ),
    "OPR007 hot spot": (
        "OPR007",
        {"dev": {"hyperpod.groups.prefill.count": 3}, "llama": {"dpd.prefill.replicas": 3}},
        "dpd.routing.strategy",
        ["one of 3 prefillers", "roundrobin"],
        {
            "dev": {"hyperpod.groups.prefill.count": 3},
            "llama": {"dpd.prefill.replicas": 3, "dpd.routing.strategy": "roundrobin"},
        },
    ),
    "OPR008 P-25 misspelt configuration key": (
        "OPR008",
        {"dev": {"operator.configuration": {"executionRoleARN": "x"}}},
        "operator.configuration.executionRoleARN",
        ["did you mean `executionRoleArn`"],
        {"dev": {"operator.configuration": {"affinity": {"nodeAffinity": {}}}}},
    ),
    "OPR008 P-25 nested configuration key": (
        "OPR008",
        {"dev": {"operator.configuration": {"keda": {"enable": True}}}},
        "operator.configuration.keda.enable",
        ["keda.enabled"],
        {"dev": {"operator.configuration": {"keda": {"enabled": True}, "tolerations": []}}},
    ),
    "OPR009 nobody has read about it": (
        "OPR009",
        {"dev": {"operator.addon_version": "v9.0.0-eksbuild.1"}},
        "operator.addon_version",
        ["v9.0.0-eksbuild.1"],
        {"dev": {"operator.addon_version": "v2.0.0-eksbuild.2"}},
    ),
    "OPR010 nixl on the operator": (
        "OPR010",
        {"llama": {"dpd.transport": "nixl"}},
        "dpd.transport",
        ["LMCache only"],
        {"llama": {"dpd.transport": "lmcache"}},
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


def test_an_enormous_version_number_is_no_traceback(check: Callable[..., list[Any]]) -> None:
    assert [found.id for found in check(dev={"operator.addon_version": "v" + "9" * 5000})] == ["OPR002"]
