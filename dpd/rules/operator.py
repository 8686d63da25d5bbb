"""OPR: names that the operator's policy demands, and what the operator can route."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, EnvironmentContext, Hit, ModelContext, environment_rule, model_rule
from dpd.sizing.capacity import pods_of_group

_DPD_PAGE = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-dpd"
_SETUP = "docs.aws.amazon.com: sagemaker-hyperpod-model-deployment-setup"
ROLE_PREFIX = "SageMakerHyperPodInference"
TLS_BUCKET_PREFIX = "hyperpod-tls-"
LIFECYCLE_BUCKET_PREFIX = "sagemaker-"


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
