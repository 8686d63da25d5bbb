"""CLU: the Kubernetes version, the base chart and the add-ons beside the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

HYPERPOD = "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1"
DIGEST = {"serving.image": f"{HYPERPOD}@sha256:{'0' * 64}"}
ADDONS_133 = {"kube-proxy": "v1.33.0-eksbuild.2", "coredns": "v1.12.1-eksbuild.2"}

CASES: dict[str, tuple[str, dict[str, Any], str, list[str], dict[str, Any]]] = {
    "CLU001 no operator for it": (
        "CLU001",
        {"dev": {"kubernetes.version": "1.31"}},
        "kubernetes.version",
        ["1.31", "1.34"],
        {"dev": {"kubernetes.version": "1.34"}},
    ),
    "CLU001 no HyperPod for it": (
        "CLU001",
        {"dev": {"kubernetes.version": "1.37"}},
        "kubernetes.version",
        ["1.37", "1.34"],
        {"dev": {"kubernetes.version": "1.34"}},
    ),
    "CLU001 P-78 nobody knows it": (
        "CLU001",
        {"dev": {"kubernetes.version": "1.99"}},
        "kubernetes.version",
        ["1.99"],
        {"dev": {"kubernetes.version": "1.34"}},
    ),
    "CLU002 protected without a digest": (
        "CLU002",
        {
            "dev": {
                "protected": True,
            },
            "llama": DIGEST,
        },
        "hyperpod.chart_archive_sha256",
        ["pinned by its commit alone"],
        {"dev": {"protected": True, "hyperpod.chart_archive_sha256": "0" * 64}, "llama": DIGEST},
    ),
    "CLU003 P-18 default of another version": (
        "CLU003",
        {"dev": {"kubernetes.version": "1.33"}},
        "addons",
        ["1.33", "kube-proxy", "coredns"],
        {"dev": {"kubernetes.version": "1.33", "addons": ADDONS_133}},
    ),
    "CLU004 P-11 too old": (
        "CLU004",
        {"dev": {"addons": {"vpc-cni": "v1.16.0-eksbuild.1"}}},
        "addons.vpc-cni",
        ["v1.16.0-eksbuild.1", "v1.18.3-eksbuild.1"],
        {"dev": {"addons": {"vpc-cni": "v1.22.4-eksbuild.3"}}},
    ),
    "CLU004 not installed by the stacks": (
        "CLU004",
        {"dev": {"addons": {"vpc-cny": "v1.22.4-eksbuild.3"}}},
        "addons.vpc-cny",
        ["did you mean `vpc-cni`"],
        {"dev": {"addons": {"vpc-cni": "v1.22.4-eksbuild.3"}}},
    ),
    "CLU004 P-18 floating": (
        "CLU004",
        {"dev": {"addons": {"metrics-server": "latest"}}},
        "addons.metrics-server",
        ["latest", "eksbuild"],
        {"dev": {"addons": {"metrics-server": "v0.8.1-eksbuild.6"}}},
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
