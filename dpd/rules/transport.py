"""EFA: variables and labels that decide whether KV cache moves over RDMA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.rules.serving import flag_path

# vLLM and NIXL read neither (vllm#41814); people set them and keep UCX.
_NO_EFFECT = {"NIXL_BACKEND", "NIXL_BACKENDS", "VLLM_NIXL_KVCACHE_BACKEND", "VLLM_NIXL_BACKEND"}


@model_rule(
    "EFA001",
    Severity.ERROR,
    Doc(
        title="NIXL backend is not LIBFABRIC",
        symptom="KV cache crawls at TCP speed, without an error (P-32, P-33, P-35).",
        cause="NixlConnector and LMCache choose UCX by default, which does not drive EFA.",
        fix="Remove your own kv-transfer-config, or name LIBFABRIC in its backends.",
        source="vllm-project/vllm#41814",
        bad='args: [--kv-transfer-config, \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\']',
        good="dpd: {transport: nixl}  # the package writes the backends",
    ),
)
def nixl_backend(context: ModelContext) -> Iterable[Hit]:
    """Report NIXL backends other than LIBFABRIC, in arguments or in LMCache's variable.

    On the operator runtime the transfer configuration is not the user's to write at all (SRV008).
    """
    deployment = context.deployment
    for role in deployment.roles if deployment.model.serving.runtime != "operator" else ():
        config = role.engine.values.get("kv-transfer-config")
        if not isinstance(config, Mapping):
            continue
        values = cast("Mapping[str, object]", config)
        extra = values.get("kv_connector_extra_config")
        backends = (
            cast("Mapping[str, object]", extra).get("backends") if isinstance(extra, Mapping) else extra
        )
        if values.get("kv_connector") == "NixlConnector" and backends != ["LIBFABRIC"]:
            yield Hit(
                path=flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport")),
                message="NixlConnector without backends LIBFABRIC falls back to UCX over TCP on EFA",
                got=backends,
                allowed=["LIBFABRIC"],
                fix='add "kv_connector_extra_config":{"backends":["LIBFABRIC"]}',
            )
            return
    for name, value in deployment.env.items():
        if name.upper() == "LMCACHE_NIXL_BACKENDS" and value.upper() != "LIBFABRIC":
            yield Hit(
                path=("dpd", "environment", name),
                message=f"{name} selects {value}, which does not drive EFA",
                got=value,
                allowed="LIBFABRIC",
                fix="set it to LIBFABRIC or remove it",
            )


@model_rule(
    "EFA002",
    Severity.ERROR,
    Doc(
        title="Variable that has no effect",
        symptom="KV cache moves over UCX although a variable seems to choose LIBFABRIC (P-32).",
        cause="No released vLLM or NIXL reads the variable.",
        fix="Remove it; the backend is part of the transfer configuration.",
        source="vllm-project/vllm#41814",
        bad="dpd: {environment: {NIXL_BACKEND: LIBFABRIC}}",
        good="dpd: {environment: {}}",
    ),
)
def variable_without_effect(context: ModelContext) -> Iterable[Hit]:
    """Report variables that look as if they chose the NIXL backend."""
    for name in context.deployment.model.dpd.environment:
        if name.upper() in _NO_EFFECT:
            yield Hit(
                path=("dpd", "environment", name),
                message=f"{name} has no effect: neither vLLM nor NIXL reads it",
                got=name,
                fix="remove it",
            )


@model_rule(
    "EFA006",
    Severity.ERROR,
    Doc(
        title="Instance label without the ml. prefix",
        symptom="Pods stay Pending, because no node carries the label (P-24).",
        cause="HyperPod nodes carry node.kubernetes.io/instance-type with the ml. prefix.",
        fix="Add the prefix, or leave the selector to the package's role label.",
        source="aws/sagemaker-hyperpod-cli#382",
        bad="node_selector: {node.kubernetes.io/instance-type: p5.48xlarge}",
        good="node_selector: {node.kubernetes.io/instance-type: ml.p5.48xlarge}",
    ),
)
def instance_label(context: ModelContext) -> Iterable[Hit]:
    """Report instance-type selectors that no HyperPod node can match."""
    for role in context.deployment.roles:
        for key, value in role.node_selector.items():
            if key.endswith("/instance-type") and not value.startswith("ml."):
                yield Hit(
                    path=("dpd", role.name, "node_selector", key),
                    message=f"no HyperPod node has the label {key}={value}",
                    got=value,
                    allowed=f"ml.{value}",
                    fix=f"write ml.{value}",
                )
