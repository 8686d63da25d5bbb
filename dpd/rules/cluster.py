"""CLU: the Kubernetes version and the base chart."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule


@environment_rule(
    "CLU001",
    Severity.ERROR,
    Doc(
        title="Kubernetes version not supported by all parts",
        symptom="HyperPod refuses the cluster, the operator does not start, or kubectl is too old for it.",
        cause="HyperPod, the inference operator and the kubectl layer each support their own range.",
        fix="Use a version of the intersection that the message lists.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-eks-prerequisites",
        bad='kubernetes: {version: "1.36"}',
        good='kubernetes: {version: "1.34"}',
    ),
)
def kubernetes_version(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a version outside the set that all parts share."""
    version = context.environment.kubernetes.version
    shared = [
        name
        for name, row in context.facts.kubernetes.items()
        if row.hyperpod and row.operator and row.kubectl_layer_module
    ]
    if version not in shared:
        yield Hit(
            path=("kubernetes", "version"),
            message=f"Kubernetes {version} is not supported by HyperPod, the operator and kubectl together",
            got=version,
            allowed=shared,
            fix=f"use one of {', '.join(shared)}",
            owner="environment",
        )


@environment_rule(
    "CLU002",
    Severity.WARNING,
    Doc(
        title="Base chart has no recorded digest",
        symptom="A deployment months later installs node components that nobody compared.",
        cause="The chart is pinned by commit id alone, which Git verifies with SHA-1.",
        fix="Record the SHA-256 that the chart's build prints in `hyperpod.chart_archive_sha256`.",
        source="docs/limits.md",
        bad="protected: true  # and no hyperpod.chart_archive_sha256",
        good="hyperpod: {chart_archive_sha256: <64 hex digits from the build's log>}",
    ),
)
def chart_digest(context: EnvironmentContext) -> Iterable[Hit]:
    """Ask protected environments for the digest of the base chart."""
    environment = context.environment
    if not environment.protected or environment.hyperpod.chart_archive_sha256:
        return
    if environment.hyperpod.chart_commit or context.facts.charts["hyperpod-base"].archive_sha256 is None:
        yield Hit(
            path=("hyperpod", "chart_archive_sha256"),
            message="the base chart is pinned by its commit alone",
            allowed="64 hexadecimal digits",
            fix="copy the digest that the chart's build printed",
            owner="environment",
        )
