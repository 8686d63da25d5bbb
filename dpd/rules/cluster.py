"""CLU: the Kubernetes version, the base chart and the add-ons beside the operator."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, environment_rule
from dpd.versions import PINNED_ADDON, ordered


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
    if not environment.protected or environment.hyperpod.chart_archive_sha256 or environment.mirrored_chart:
        return
    if environment.hyperpod.chart_commit or context.facts.charts["hyperpod-base"].archive_sha256 is None:
        yield Hit(
            path=("hyperpod", "chart_archive_sha256"),
            message="the base chart is pinned by its commit alone",
            allowed="64 hexadecimal digits",
            fix="copy the digest that the chart's build printed",
            owner="environment",
        )


@environment_rule(
    "CLU003",
    Severity.ERROR,
    Doc(
        title="Add-on default of another Kubernetes version",
        symptom="The add-on fails to create: the version is not supported by this cluster.",
        cause="kube-proxy and coredns follow the cluster's minor version; the facts hold one default each.",
        fix="Name the version under `addons`; `aws eks describe-addon-versions` lists those that fit.",
        source="docs.aws.amazon.com: eks managing-kube-proxy",
        bad='kubernetes: {version: "1.35"}',
        good='kubernetes: {version: "1.35"}\n'
        "addons: {kube-proxy: v1.35.0-eksbuild.2, coredns: v1.13.1-eksbuild.1}",
    ),
)
def addon_defaults_fit(context: EnvironmentContext) -> Iterable[Hit]:
    """Report the add-ons that need a version of their own here; one hit names all of them."""
    version = context.environment.kubernetes.version
    known = context.facts.kubernetes.get(version)
    if known is None or not (known.hyperpod and known.operator):
        return
    missing = [
        name
        for name, row in context.facts.addons.items()
        if row.default_for_kubernetes not in {None, version} and name not in context.environment.addons
    ]
    if missing:
        yield Hit(
            path=("addons",),
            message=f"no default version for Kubernetes {version} is known for {', '.join(missing)}",
            got=version,
            allowed=missing,
            fix=f"name them under `addons`: aws eks describe-addon-versions --kubernetes-version {version}",
            owner="environment",
        )


@environment_rule(
    "CLU004",
    Severity.ERROR,
    Doc(
        title="Add-on version that cannot work",
        symptom="Pods get no network, or the operator waits for a driver that is too old (P-11, P-18).",
        cause="The add-on is not one that the stacks install, not pinned, or older than what HyperPod needs.",
        fix="Use a full version at or above the minimum in the message.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup",
        bad="addons: {vpc-cni: v1.16.0-eksbuild.1}",
        good="addons: {vpc-cni: v1.22.4-eksbuild.3}",
    ),
)
def addon_versions(context: EnvironmentContext) -> Iterable[Hit]:
    """Report each entry of ``addons`` that no stack uses, that floats, or that is too old."""
    # The operator's own version is operator.addon_version.
    known = {name: row for name, row in context.facts.addons.items() if not name.endswith("-inference")}
    for name, version in context.environment.addons.items():
        row = known.get(name)
        if row is None:
            near = difflib.get_close_matches(name, known, n=1)
            message, allowed = f"the stacks install no add-on `{name}`", list(known)
            fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
        elif not PINNED_ADDON.fullmatch(version):
            message, allowed = f"`{version}` is no full version", "v<major>.<minor>.<patch>-eksbuild.<n>"
            fix = f"write it in full, such as {row.default_version}"
        elif ordered(version) < ordered(row.minimum_version):
            message, allowed = f"{name} {version} is older than {row.minimum_version}", row.minimum_version
            fix = f"use {row.minimum_version} or later"
        else:
            continue
        yield Hit(("addons", name), message, version, allowed, fix, "environment")
