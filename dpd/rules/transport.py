"""EFA: settings, variables and labels that decide whether KV cache moves over RDMA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from dpd.finding import Severity
from dpd.rules.arguments import flag_path
from dpd.rules.registry import Doc, Hit, ModelContext, model_rule
from dpd.spec.deployment import Deployment
from dpd.spec.lmcache import extra_config, lmcache_settings
from dpd.yaml_file import Path_

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
        values, backends = cast("Mapping[str, object]", config), extra_config(role.engine).get("backends")
        if values.get("kv_connector") == "NixlConnector" and backends != ["LIBFABRIC"]:
            yield Hit(
                path=flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport")),
                message="NixlConnector without backends LIBFABRIC falls back to UCX over TCP on EFA",
                got=backends,
                allowed=["LIBFABRIC"],
                fix='add "kv_connector_extra_config":{"backends":["LIBFABRIC"]}',
            )
            return
    for role in deployment.roles:
        setting = lmcache_settings(deployment.model.dpd.environment, role.engine).get("nixl_backends")
        if setting is None or setting.value.upper() == "LIBFABRIC":
            continue
        if setting.variable is None and deployment.model.serving.runtime == "operator":
            continue
        path: Path_ = ("dpd", "environment", setting.variable or "")
        if setting.variable is None:
            path = flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport"))
        yield Hit(
            path=path,
            message=f"LMCache's nixl_backends selects {setting.value}, which does not drive EFA",
            got=setting.value,
            allowed="LIBFABRIC",
            fix="set it to LIBFABRIC or remove it",
        )
        return


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


# Read by every pod of both roles, and meant to be the address of one.
_OWN_ADDRESS = {"VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_HOST_IP", "LMCACHE_PD_PEER_HOST"}
_ADDRESS_OF_ANOTHER = {"LMCACHE_PD_PROXY_HOST"}
_NOWHERE = re.compile(r"0\.0\.0\.0|localhost|127(\.[0-9]+){1,3}|::1?|\[::1?\]", re.IGNORECASE)


@model_rule(
    "EFA005",
    Severity.ERROR,
    Doc(
        title="Side-channel host that is the same for every pod",
        symptom="Decode crashes at the handshake, or prefills again by itself (P-66).",
        cause="Workers publish this address to each other; localhost and 0.0.0.0 mean the reader's own pod, "
        "and any other literal means one pod for all of them.",
        fix="Remove it: the runtime sets each pod's own address.",
        source="vllm-project/vllm#27083; ray-project/ray#60817",
        bad="dpd: {environment: {VLLM_NIXL_SIDE_CHANNEL_HOST: 0.0.0.0}}",
        good="dpd: {environment: {}}",
    ),
)
def side_channel_host(context: ModelContext) -> Iterable[Hit]:
    """Report literal addresses that each pod must have for itself, and proxies that are nowhere."""
    deployment = context.deployment
    for path, name, value in _addresses(deployment) if deployment.disaggregated else ():
        nowhere = _NOWHERE.fullmatch(value.strip()) is not None
        # $(POD_IP) is expanded by Kubernetes, for each pod by itself.
        if nowhere or (name in _OWN_ADDRESS and not value.startswith("$(")):
            reaches = "the pod that reads it" if nowhere else "one pod only"
            yield Hit(
                path=path,
                message=f"{name} is `{value}` in every pod, which reaches {reaches}",
                got=value,
                allowed="each pod's own address, which the runtime sets",
                fix="remove it",
            )


def _addresses(deployment: Deployment) -> list[tuple[Path_, str, str]]:
    """Return variables and settings that hold an address, by the variable's proper name, each once."""
    wanted = _OWN_ADDRESS | _ADDRESS_OF_ANOTHER
    found: list[tuple[Path_, str, str]] = [
        (("dpd", "environment", name), name.upper(), value)
        for name, value in deployment.model.dpd.environment.items()
        if name.upper() in wanted
    ]
    for role in deployment.roles if deployment.model.serving.runtime != "operator" else ():
        path = flag_path(deployment, role, "kv-transfer-config", ("dpd", "transport"))
        found += [
            (path, f"LMCACHE_{key.upper()}", setting.value)
            for key, setting in lmcache_settings({}, role.engine).items()
            if f"LMCACHE_{key.upper()}" in wanted
        ]
    return list(dict.fromkeys(found))
