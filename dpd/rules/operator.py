"""OPR: the inference operator and its add-on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import cast

from dpd.facts import AddonConfigurationFact, OperatorFact
from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, ModelContext, environment_rule, model_rule
from dpd.sizing.capacity import pods_of_group
from dpd.versions import PINNED_ADDON, ordered, release
from dpd.yaml_file import Path_, dotted

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"
_NOTES = "docs.aws.amazon.com: sagemaker-hyperpod-inference-release-notes"
_SETUP = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup"
_VERSION = ("operator", "addon_version")
ADDON = "amazon-sagemaker-hyperpod-inference"
ROLE_PREFIX = "SageMakerHyperPodInference"
TLS_BUCKET_PREFIX = "hyperpod-tls-"
LIFECYCLE_BUCKET_PREFIX = "sagemaker-"


def _first_with_dpd(operators: Mapping[str, OperatorFact]) -> str:
    return min((name for name, row in operators.items() if row.supports_dpd), key=ordered)


def _too_old(version: str | None, operators: Mapping[str, OperatorFact]) -> bool:
    """Tell whether a release, with or without its build, is older than the first one with DPD."""
    asked, floor = release(version or ""), release(_first_with_dpd(operators))
    return asked is not None and floor is not None and asked < floor


@environment_rule(
    "OPR001",
    Severity.ERROR,
    Doc(
        title="Operator too old for DPD",
        symptom="Workers restart in a loop with EngineDeadError or TimeoutError (report P-20).",
        cause="`pdSpec` exists from operator v3.2 on, which add-on v1.3.0-eksbuild.1 brought.",
        fix="Raise `operator.addon_version`.",
        source=_NOTES,
        bad="operator: {addon_version: v1.2.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_too_old(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an add-on older than the first one with DPD."""
    version = context.environment.operator.addon_version
    floor = _first_with_dpd(context.facts.operator)
    if _too_old(version, context.facts.operator):
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} has no disaggregated prefill and decode",
            got=version,
            allowed=f"{floor} or later",
            fix=f"use {floor} or later",
            owner="environment",
        )


@environment_rule(
    "OPR002",
    Severity.ERROR,
    Doc(
        title="Operator not pinned",
        symptom="A deployment that worked yesterday fails, because the add-on's default moved (report P-18).",
        cause="Without a full version EKS installs its current default.",
        fix="Name the full version, with its eksbuild number.",
        source="awslabs/awsome-distributed-ai#1076",
        bad="operator: {}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_pinned(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an add-on version that is absent or not complete."""
    version = context.environment.operator.addon_version
    if version and PINNED_ADDON.fullmatch(version):
        return
    if _too_old(version, context.facts.operator):
        return
    yield Hit(
        path=_VERSION,
        message="the operator's add-on is not pinned to a full version",
        got=version,
        allowed="v<major>.<minor>.<patch>-eksbuild.<n>",
        fix=f"write one of {', '.join(n for n, row in context.facts.operator.items() if row.supports_dpd)}",
        owner="environment",
    )


@environment_rule(
    "OPR003",
    Severity.WARNING,
    Doc(
        title="Operator with known routing defects",
        symptom="Every request answers 503 right after deploy, because the routing Service is missing.",
        cause="Operator v3.2 (add-on v1.3.x) can leave the routing Service out; v3.3 mends it.",
        fix="Use add-on v1.4.0-eksbuild.1 or later.",
        source=_NOTES,
        bad="operator: {addon_version: v1.3.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_defects(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a version that supports DPD and has known defects."""
    version = context.environment.operator.addon_version
    row = context.facts.operator.get(version or "")
    if row is not None and row.supports_dpd and row.known_defects:
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} has known defects: {'; '.join(row.known_defects)}",
            got=version,
            fix="use a later version",
            owner="environment",
        )


@environment_rule(
    "OPR004",
    Severity.ERROR,
    Doc(
        title="Role or TLS bucket without the demanded prefix",
        symptom="The add-on does not render, or the operator may not write its certificate.",
        cause="The managed policy allows PassRole and S3 only for names with these prefixes (report P-30).",
        fix="Begin the role's name with SageMakerHyperPodInference and the bucket's with hyperpod-tls-.",
        source=_SETUP,
        bad="operator: {execution_role_name: InferenceRole}",
        good="operator: {execution_role_name: SageMakerHyperPodInference-dev}",
    ),
)
def operator_names(context: EnvironmentContext) -> Iterable[Hit]:
    """Report names of imported resources that the operator's policy does not cover."""
    operator = context.environment.operator
    for key, value, prefix in (
        ("execution_role_name", operator.execution_role_name, ROLE_PREFIX),
        ("tls_bucket", operator.tls_bucket, TLS_BUCKET_PREFIX),
    ):
        if value and not value.startswith(prefix):
            yield Hit(
                path=("operator", key),
                message=f"`{value}` does not begin with {prefix}",
                got=value,
                allowed=f"{prefix}...",
                fix=f"begin it with {prefix}",
                owner="environment",
            )


@environment_rule(
    "OPR005",
    Severity.ERROR,
    Doc(
        title="Lifecycle bucket without the demanded prefix",
        symptom="Nodes cannot read their lifecycle script and never join (report P-12).",
        cause="AmazonSageMakerClusterInstanceRolePolicy reads only buckets named sagemaker-...",
        fix="Use a bucket whose name begins with sagemaker-.",
        source="docs.aws.amazon.com: API_ClusterLifeCycleConfig",
        bad="hyperpod: {lifecycle_bucket: my-scripts}",
        good="hyperpod: {lifecycle_bucket: sagemaker-my-scripts}",
    ),
)
def lifecycle_bucket(context: EnvironmentContext) -> Iterable[Hit]:
    """Report an imported lifecycle bucket that nodes may not read."""
    bucket = context.environment.hyperpod.lifecycle_bucket
    if bucket and not bucket.startswith(LIFECYCLE_BUCKET_PREFIX):
        yield Hit(
            path=("hyperpod", "lifecycle_bucket"),
            message=f"`{bucket}` does not begin with {LIFECYCLE_BUCKET_PREFIX}",
            got=bucket,
            allowed=f"{LIFECYCLE_BUCKET_PREFIX}...",
            fix=f"begin it with {LIFECYCLE_BUCKET_PREFIX}",
            owner="environment",
        )


def _runs_on_operator(context: ModelContext) -> bool:
    deployment = context.deployment
    return deployment.disaggregated and deployment.model.serving.runtime == "operator"


@model_rule(
    "OPR006",
    Severity.ERROR,
    Doc(
        title="More than one decoder on the operator runtime",
        symptom="Requests meet a decoder that has not received their KV cache.",
        cause="The operator documents one decoder per endpoint; it does not route between decoders.",
        fix="Keep one decode replica per endpoint and add endpoints, or use the self-managed runtime.",
        source=_DPD_PAGE,
        bad="dpd: {decode: {replicas: 2}}",
        good="dpd: {decode: {replicas: 1}}",
    ),
)
def single_decoder(context: ModelContext) -> Iterable[Hit]:
    """Report decode replicas above one."""
    if _runs_on_operator(context) and context.deployment.model.dpd.decode.replicas > 1:
        replicas = context.deployment.model.dpd.decode.replicas
        yield Hit(
            path=("dpd", "decode", "replicas"),
            message=f"the operator serves one decode replica per endpoint, got {replicas}",
            got=replicas,
            allowed=1,
            fix="set it to 1",
        )


@model_rule(
    "OPR007",
    Severity.WARNING,
    Doc(
        title="Several prefillers with prefix-aware routing",
        symptom="One prefiller is busy while the others idle.",
        cause="Prompts that begin alike all go to the same prefiller.",
        fix="Use roundrobin or kvaware, or keep prefixaware where prompts begin differently.",
        source="docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-ts-dpd",
        bad="dpd: {prefill: {replicas: 3}, routing: {strategy: prefixaware}}",
        good="dpd: {prefill: {replicas: 3}, routing: {strategy: roundrobin}}",
    ),
)
def prefix_hot_spot(context: ModelContext) -> Iterable[Hit]:
    """Report prefix-aware routing in front of several prefillers; CAP005 speaks first if they do not fit."""
    dpd = context.deployment.model.dpd
    if not _runs_on_operator(context) or dpd.routing.strategy != "prefixaware":
        return
    fitting = pods_of_group(context.deployment.role("prefill")) or dpd.prefill.replicas
    if 1 < dpd.prefill.replicas <= fitting:
        yield Hit(
            path=("dpd", "routing", "strategy"),
            message=f"prefixaware can send most prompts to one of {dpd.prefill.replicas} prefillers",
            got="prefixaware",
            allowed=["roundrobin", "kvaware", "session"],
            fix="use roundrobin unless prompts begin differently",
        )


@environment_rule(
    "OPR008",
    Severity.ERROR,
    Doc(
        title="Unknown key in an add-on's configuration",
        symptom="The add-on fails to create, or ignores the value; no template validator reads this text.",
        cause="EKS keeps configuration values as one JSON string, so a template cannot check its keys.",
        fix="Use a key that the message lists.",
        source=_SETUP,
        bad="operator: {configuration: {executionRoleARN: arn:aws:iam::111122223333:role/x}}",
        good="operator: {configuration: {affinity: {}}}",
    ),
)
def addon_configuration(context: EnvironmentContext) -> Iterable[Hit]:
    """Report configuration keys that the inference add-on does not have."""
    row = context.facts.addon_configuration.get(ADDON)
    if row is None:
        return
    for path in unknown_configuration_keys(context.environment.operator.configuration, row):
        near = difflib.get_close_matches(dotted(path), row.keys, n=1)
        yield Hit(
            path=("operator", "configuration", *path),
            message=f"{ADDON} has no configuration key `{dotted(path)}`",
            got=dotted(path),
            allowed=list(row.keys),
            fix=f"did you mean `{near[0]}`?" if near else f"known: {', '.join(row.keys)}",
            owner="environment",
        )


def unknown_configuration_keys(
    values: Mapping[str, object], row: AddonConfigurationFact, prefix: Path_ = ()
) -> list[Path_]:
    """Return the paths in an add-on's configuration that its facts do not list."""
    unknown: list[Path_] = []
    for key, value in values.items():
        path = (*prefix, key)
        name = dotted(path)
        if any(known in {name, f"{name}.*"} or _below(name, known) for known in row.keys):
            continue
        if isinstance(value, Mapping) and any(known.startswith(f"{name}.") for known in row.keys):
            unknown += unknown_configuration_keys(cast("Mapping[str, object]", value), row, path)
        else:
            unknown.append(path)
    return unknown


def _below(name: str, known: str) -> bool:
    return known.endswith(".*") and name.startswith(known[:-1])


@environment_rule(
    "OPR009",
    Severity.WARNING,
    Doc(
        title="Operator version not in the facts",
        symptom="Behaviour that nobody of this project has read about.",
        cause="The version is newer than the package's facts, or does not exist.",
        fix="Add a row to config/facts/operator.yaml with its source, or accept the finding with a reason.",
        source=_NOTES,
        bad="operator: {addon_version: v9.0.0-eksbuild.1}",
        good="operator: {addon_version: v1.4.0-eksbuild.1}",
    ),
)
def operator_known(context: EnvironmentContext) -> Iterable[Hit]:
    """Report a complete version at or above the floor that the facts do not hold."""
    version, operators = context.environment.operator.addon_version, context.facts.operator
    if not version or version in operators:
        return
    if not PINNED_ADDON.fullmatch(version):
        return
    if not _too_old(version, operators):
        yield Hit(
            path=_VERSION,
            message=f"add-on {version} is not in the compatibility facts",
            got=version,
            allowed=list(operators),
            fix="add a row with its source to config/facts/operator.yaml",
            owner="environment",
        )


@model_rule(
    "OPR010",
    Severity.ERROR,
    Doc(
        title="Transport that the operator does not speak",
        symptom="The operator's router sends the LMCache handshake to workers that expect another.",
        cause="The operator wires LMCache between prefill and decode; NixlConnector needs its own router.",
        fix="Use `transport: lmcache`, or `runtime: self_managed` for nixl.",
        source=_DPD_PAGE,
        bad="serving: {runtime: operator}\ndpd: {transport: nixl}",
        good="serving: {runtime: operator}\ndpd: {transport: lmcache}",
    ),
)
def operator_transport(context: ModelContext) -> Iterable[Hit]:
    """Report NixlConnector on the operator runtime."""
    if _runs_on_operator(context) and context.deployment.model.dpd.transport == "nixl":
        yield Hit(
            path=("dpd", "transport"),
            message="the operator moves KV cache with LMCache only",
            got="nixl",
            allowed="lmcache",
            fix="use lmcache, or serving.runtime: self_managed",
        )
