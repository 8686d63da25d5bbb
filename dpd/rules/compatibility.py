"""Which releases of operator, chart, image, LMCache, vLLM, NIXL and Kubernetes go together.

What the facts do not know is a warning that an environment can accept with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpd.facts import ChartFact, FeatureFact, ImageFact, OperatorFact
from dpd.finding import Severity
from dpd.rules.registry import (
    Doc,
    EnvironmentContext,
    Hit,
    ModelContext,
    accept_hint,
    environment_rule,
    model_rule,
)
from dpd.sizing.capacity import groups
from dpd.spec.base_chart import chart_pin
from dpd.spec.environment import Environment
from dpd.versions import release

_IMAGE = ("serving", "image")
_DOCUMENT = "docs/compatibility.md"


@model_rule(
    "LMC004",
    Severity.WARNING,
    Doc(
        title="LMCache release not in the facts",
        symptom="Pages leak, or decoding starts before the KV cache has arrived, in ways that nobody listed.",
        cause="Releases of LMCache differ in how they count references to shared pages.",
        fix="Add a row with its source to config/facts/lmcache.yaml, or accept the finding with a reason.",
        source=_DOCUMENT,
        bad="serving: {image: ...}  # its row in images.yaml has lmcache_version 0.9.0",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def lmcache_known(context: ModelContext) -> Iterable[Hit]:
    """Report an image whose LMCache has no row, where LMCache moves the KV cache."""
    deployment = context.deployment
    version = deployment.image.fact.lmcache_version if deployment.image.fact else None
    if not deployment.disaggregated or deployment.model.dpd.transport != "lmcache" or version is None:
        return
    if version not in context.facts.lmcache:
        yield Hit(
            path=_IMAGE,
            message=f"LMCache {version} is not in the facts",
            got=version,
            allowed=list(context.facts.lmcache),
            fix=f"add a row with its source to config/facts/lmcache.yaml, {accept_hint('LMC004')}",
        )


@model_rule(
    "IMG006",
    Severity.ERROR,
    Doc(
        title="NIXL with a known defect on EFA",
        symptom="Small transfers never end, and requests hang with no error (P-39).",
        cause="Some NIXL releases batch writes in a way that EFA does not complete.",
        fix="Use an image with another NIXL.",
        source="ai-dynamo/nixl#1862, #1921",
        bad="serving: {image: ...}  # its row in images.yaml has nixl_version 1.3.0",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def nixl_defects(context: ModelContext) -> Iterable[Hit]:
    """Report an image whose NIXL hangs on EFA; both transports move KV cache with it."""
    fact = context.deployment.image.fact
    row = context.facts.nixl.get(fact.nixl_version or "") if fact else None
    if context.deployment.disaggregated and fact is not None and row is not None and row.efa_defects:
        yield Hit(
            path=_IMAGE,
            message=f"NIXL {fact.nixl_version} on EFA: {'; '.join(row.efa_defects)}",
            got=fact.nixl_version,
            allowed=[name for name, other in context.facts.nixl.items() if not other.efa_defects],
            fix="use an image with another NIXL",
        )


@model_rule(
    "IMG007",
    Severity.WARNING,
    Doc(
        title="NIXL release not in the facts",
        symptom="Transfers hang or crawl in ways that nobody listed.",
        cause="The image's NIXL is not known, or nobody has looked at it on EFA.",
        fix="Add a row with its source to config/facts/nixl.yaml, or accept the finding with a reason.",
        source=_DOCUMENT,
        bad="serving: {image: ...}  # its row in images.yaml has nixl_version 9.0.0",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def nixl_known(context: ModelContext) -> Iterable[Hit]:
    """Report an image without a known NIXL; where LMCache is unknown too, IMG005 speaks."""
    deployment = context.deployment
    fact = deployment.image.fact
    if not deployment.disaggregated or fact is None or fact.nixl_version in context.facts.nixl:
        return
    if deployment.model.dpd.transport == "lmcache" and fact.lmcache_version is None:
        return
    yield Hit(
        path=_IMAGE,
        message=f"NIXL {fact.nixl_version or '(unknown)'} of {fact.reference} is not in the facts",
        got=fact.nixl_version,
        allowed=list(context.facts.nixl),
        fix=f"add a row with its source to config/facts/nixl.yaml, {accept_hint('IMG007')}",
    )


@model_rule(
    "RTG004",
    Severity.ERROR,
    Doc(
        title="kvaware routing with releases that are too old for it",
        symptom="The router finds no cached prefix and behaves like roundrobin, or does not start.",
        cause="The strategy asks LMCache's controller what each worker holds, which older releases lack.",
        fix="Raise what the message names, or use prefixaware or roundrobin.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-caching-routing",
        bad="serving: {image: lmcache-v0.4.3}  # vLLM 0.19.0\ndpd: {routing: {strategy: kvaware}}",
        good="serving: {image: hyperpod-dlc}\ndpd: {routing: {strategy: kvaware}}",
    ),
)
def kvaware(context: ModelContext) -> Iterable[Hit]:
    """Compare operator, vLLM and LMCache with the least that kvaware needs; unknown ones are not judged."""
    deployment, facts = context.deployment, context.facts
    strategy = deployment.model.dpd.routing.strategy
    if strategy not in facts.features or deployment.model.serving.runtime != "operator":
        return
    addon = facts.operator.get(deployment.environment.operator.addon_version or "")
    old = _too_old(facts.features[strategy], addon, deployment.image.fact)
    if old:
        yield Hit(
            path=("dpd", "routing", "strategy"),
            message=f"{strategy} needs {', '.join(old)}",
            got=strategy,
            allowed=["prefixaware", "session", "roundrobin"],
            fix="raise what is too old, or use another strategy",
        )


def _too_old(needs: FeatureFact, addon: OperatorFact | None, image: ImageFact | None) -> list[str]:
    """Return what is older than the feature needs, in words."""
    found = (
        ("operator", needs.operator_version, addon.operator_version if addon else None),
        ("vLLM", needs.vllm_version, image.vllm_version if image else None),
        ("LMCache", needs.lmcache_version, image.lmcache_version if image else None),
    )
    return [f"{name} {least} or later, got {has}" for name, least, has in found if has and _older(has, least)]


def _older(version: str, least: str) -> bool:
    has, wanted = release(version), release(least)
    return has is not None and wanted is not None and has < wanted


@environment_rule(
    "CLU007",
    Severity.ERROR,
    Doc(
        title="EFA device plugin too old for the instance type",
        symptom="Nodes offer more or fewer EFA devices than they have, and pods stay Pending (P-23).",
        cause="Plugins before 0.5.10 count NVLink's InfiniBand devices of ml.p6-b200 as EFA devices.",
        fix="Use a newer base chart: leave `hyperpod.chart_commit` out.",
        source="aws/sagemaker-hyperpod-cli#282",
        bad="hyperpod: {chart_commit: ...}  # EFA plugin 0.5.3, with ml.p6-b200.48xlarge",
        good="hyperpod: {}",
    ),
)
def efa_plugin(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare the chart's plugin with what the GPU groups' types need; CLU008 reports unknown charts."""
    chart = _chart(context)
    if chart is None:
        return
    for name in ("prefill", "decode"):
        kind = groups(context.environment)[name].instance_type
        row = context.facts.instances.get(kind)
        least = row.minimum_efa_plugin if row else None
        if least and _older(chart.efa_plugin_version, least):
            yield Hit(
                path=("hyperpod", "chart_commit"),
                message=f"{kind} needs EFA device plugin {least}, the chart has {chart.efa_plugin_version}",
                got=chart.commit,
                allowed=f"a chart with {least} or later",
                fix="leave chart_commit out, or name a newer commit",
                owner="environment",
            )
            return


@environment_rule(
    "CLU008",
    Severity.WARNING,
    Doc(
        title="Base chart not in the facts",
        symptom="Device plugins that nobody of this project has read about, with defects that nobody listed.",
        cause="`hyperpod.chart_commit` names a commit without a row, so its plugins are not known.",
        fix="Add a row with its source to config/facts/charts.yaml, or accept the finding with a reason.",
        source=_DOCUMENT,
        bad=f"hyperpod: {{chart_commit: '{'1' * 40}'}}",
        good="hyperpod: {}",
    ),
)
def chart_known(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a commit without a row; in a closed network NET007 speaks of a chart that is not copied."""
    environment = context.environment
    commit = environment.hyperpod.chart_commit
    if commit is None or _chart(context) is not None or _not_copied(environment, commit):
        return
    yield Hit(
        path=("hyperpod", "chart_commit"),
        message=f"the base chart of commit {commit[:12]} is not in the compatibility facts",
        got=commit,
        allowed=[row.commit for row in context.facts.charts.values()],
        fix=f"add a row with its source to config/facts/charts.yaml, {accept_hint('CLU008')}",
        owner="environment",
    )


def _not_copied(environment: Environment, commit: str) -> bool:
    copy = environment.mirrored_chart
    return environment.network.closed and (copy is None or copy.commit != commit)


def _chart(context: EnvironmentContext) -> ChartFact | None:
    commit = chart_pin(context.environment, context.facts).commit
    return next((row for row in context.facts.charts.values() if row.commit == commit), None)


@environment_rule(
    "CLU009",
    Severity.WARNING,
    Doc(
        title="Add-on not seen for this Kubernetes version",
        symptom="EKS refuses the add-on: its version is not supported by the cluster.",
        cause="The versions for which the add-on was seen do not hold that of the cluster.",
        fix="Use a version that the message lists, or accept the finding with a reason.",
        source="config/facts/operator.yaml",
        bad="operator: {addon_version: ...}  # seen for Kubernetes 1.32 to 1.37\n"
        'kubernetes: {version: "1.31"}',
        good='kubernetes: {version: "1.34"}',
    ),
)
def addon_on_kubernetes(context: EnvironmentContext) -> Iterable[Hit]:
    """Compare the cluster with the versions of the add-on's row; CLU001 reports what nothing supports."""
    environment, facts = context.environment, context.facts
    version, addon = environment.kubernetes.version, environment.operator.addon_version
    row, cluster = facts.operator.get(addon or ""), facts.kubernetes.get(version)
    if row is None or not row.kubernetes_versions or version in row.kubernetes_versions:
        return
    if cluster is not None and cluster.hyperpod and cluster.operator:
        yield Hit(
            path=("kubernetes", "version"),
            message=f"add-on {addon} was seen for Kubernetes {', '.join(row.kubernetes_versions)} only",
            got=version,
            allowed=list(row.kubernetes_versions),
            fix=f"use one of them, {accept_hint('CLU009')}",
            owner="environment",
        )
