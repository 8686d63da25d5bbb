"""What the operator's manifest says for configurations other than the golden one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pydantic import ValidationError

from dpd.spec.catalog import load_catalog
from dpd.spec.deployment import NAMESPACE, Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.model import Model
from k8s.render import Bindings, RuntimeNotRendered, endpoint_manifest, manifests, to_yaml

CONFIG = Path(__file__).parents[2] / "config"
TOKENS = Bindings(weights_bucket="${Token[TOKEN.12]}", tls_bucket="${Token[Tls.Bucket.7]}")
AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-12ab"

Build = Callable[..., Deployment]


@pytest.fixture(scope="module")
def build() -> Build:
    """Build the dev deployment with dotted keys of model or environment changed."""
    catalog = load_catalog(CONFIG)
    loaded, facts = catalog.environments["dev"].value, catalog.facts
    assert loaded is not None
    assert facts is not None
    model, _ = catalog.effective("dev", "llama-3.3-70b")
    assert model.value is not None

    def with_changes(
        changes: Mapping[str, object] | None = None, environment: Mapping[str, object] | None = None
    ) -> Deployment:
        return build_deployment(
            Environment.model_validate(_changed(loaded.model_dump(by_alias=True, mode="json"), environment)),
            Model.model_validate(_changed(cast("Model", model.value).model_dump(mode="json"), changes)),
            facts,
        )

    return with_changes


def _changed(data: dict[str, Any], changes: Mapping[str, object] | None) -> dict[str, Any]:
    for key, value in (changes or {}).items():
        at = data
        *parents, last = key.split(".")
        for parent in parents:
            at = at[parent]
        at[last] = value
    return data


def _spec(deployment: Deployment) -> dict[str, Any]:
    return cast("dict[str, Any]", endpoint_manifest(deployment, TOKENS)["spec"])


def test_endpoint_stands_in_the_namespace_that_is_rendered(build: Build) -> None:
    namespace, endpoint = cast("list[dict[str, Any]]", manifests(build(), TOKENS))
    assert namespace["kind"] == "Namespace"
    assert endpoint["metadata"]["namespace"] == namespace["metadata"]["name"]


def test_bucket_tokens_pass_through_whole(build: Build) -> None:
    spec = _spec(build())
    assert spec["modelSourceConfig"]["s3Storage"]["bucketName"] == TOKENS.weights_bucket
    assert spec["tlsConfig"]["tlsCertificateOutputS3Uri"].startswith(f"s3://{TOKENS.tls_bucket}/")


def test_self_managed_runtime_is_refused_by_name(build: Build) -> None:
    with pytest.raises(RuntimeNotRendered, match=r"serving\.runtime is `self_managed`"):
        manifests(build({"serving.runtime": "self_managed"}), TOKENS)


def test_generated_weights_are_refused_by_name(build: Build) -> None:
    with pytest.raises(RuntimeNotRendered, match="weights from `generated`"):
        manifests(build({"weights": {"source": "generated"}}), TOKENS)


def test_colocated_is_the_same_resource_without_pd_spec(build: Build) -> None:
    spec = _spec(build({"serving.mode": "colocated", "serving.replicas": 2}))
    assert "pdSpec" not in spec
    assert spec["replicas"] == 2
    assert spec["worker"]["args"][-2:] == ["--max-num-seqs", "64"]
    assert spec["worker"]["resources"]["limits"]["nvidia.com/gpu"] == 8


def test_colocated_pods_stay_on_the_decode_group(build: Build) -> None:
    spec = _spec(build({"serving.mode": "colocated"}))
    assert "instanceType" not in spec
    (term,) = spec["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "hyperpod-dpd/role", "operator": "In", "values": ["decode"]}]


def test_two_instance_types_become_a_list_in_role_order(build: Build) -> None:
    spec = _spec(build(environment={"hyperpod.groups.decode.instance_type": "ml.p5en.48xlarge"}))
    assert "instanceType" not in spec
    assert spec["instanceTypes"] == ["ml.p5.48xlarge", "ml.p5en.48xlarge"]


def test_efa_devices_follow_the_gpus_of_the_pod(build: Build) -> None:
    spec = _spec(build({"serving.tensor_parallel": 4}))
    for role in ("prefillSpec", "decodingSpec"):
        resources = spec["pdSpec"][role]["resources"]
        assert resources["requests"]["vpc.amazonaws.com/efa"] == 16
        assert resources["limits"]["vpc.amazonaws.com/efa"] == 16


def test_an_instance_without_efa_asks_for_none(build: Build) -> None:
    deployment = build(environment={"hyperpod.groups.prefill.instance_type": "ml.unknown.xlarge"})
    assert "vpc.amazonaws.com/efa" not in _spec(deployment)["pdSpec"]["prefillSpec"]["resources"]["limits"]


def test_memory_that_is_no_whole_gibibyte_keeps_its_bytes(build: Build) -> None:
    deployment = build({"dpd.l1_cache.size_per_rank": "1025KiB"})
    request = _spec(deployment)["pdSpec"]["prefillSpec"]["resources"]["requests"]["memory"]
    assert request == f"{128 * 1024 * 1024 + 8 * 1025}Ki"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (
            {"source": "fsx", "file_system_id": "fs-0123456789abcdef0", "prefix": "llama"},
            {
                "modelSourceType": "fsx",
                "fsxStorage": {"fileSystemId": "fs-0123456789abcdef0"},
                "modelLocation": "llama",
            },
        ),
        (
            {"source": "huggingface", "token_secret": "hf", "revision": "a" * 40},
            {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {
                    "modelId": "meta-llama/Llama-3.3-70B-Instruct",
                    "commitSHA": "a" * 40,
                    "tokenSecretRef": {"name": "hf", "key": "token"},
                },
            },
        ),
    ],
    ids=["fsx", "huggingface"],
)
def test_weights_come_from(build: Build, weights: object, expected: object) -> None:
    assert _spec(build({"weights": weights}))["modelSourceConfig"] == expected


def test_kvaware_uses_the_completions_path(build: Build) -> None:
    spec = _spec(build({"dpd.routing.strategy": "kvaware"}))
    assert spec["invocationEndpoint"] == "v1/completions"


@pytest.mark.parametrize(("transport", "expected"), [("lmcache", True), ("nixl", False)])
def test_host_cache_needs_the_lmcache_connector(build: Build, transport: str, expected: bool) -> None:
    spec = _spec(build({"dpd.transport": transport}))
    assert spec["kvCacheSpec"] == {"enableL1Cache": expected, "enableL2Cache": False}


def test_topology_names_zone_and_group_only_when_asked(build: Build) -> None:
    assert _spec(build())["pdSpec"]["topologySpec"] == {"sameAZ": True}
    asked = build(
        {"dpd.topology": {"same_zone": True, "availability_zone": "us-west-2a", "placement_group": "pg"}}
    )
    assert _spec(asked)["pdSpec"]["topologySpec"] == {
        "sameAZ": True,
        "availabilityZone": "us-west-2a",
        "placementGroup": "pg",
    }


def test_startup_may_take_an_hour_and_the_deployment_longer(build: Build) -> None:
    spec = _spec(build())
    startup = spec["worker"]["probes"]["startupProbe"]
    limit_s = startup["periodSeconds"] * startup["failureThreshold"]
    assert limit_s >= 3600
    assert spec["maxDeployTimeInSeconds"] > limit_s
    checked = _spec(build(environment={"hyperpod.deep_health_checks": ["InstanceStress"]}))
    assert checked["maxDeployTimeInSeconds"] - spec["maxDeployTimeInSeconds"] == 4 * 3600


def test_no_probe_sends_a_completion(build: Build) -> None:
    probes = _spec(build())["worker"]["probes"]
    assert {probe["httpGet"]["path"] for probe in probes.values()} == {"/health"}


def test_variables_are_sorted_by_name(build: Build) -> None:
    spec = _spec(build({"dpd.environment": {"ZZZ": "1", "AAA": "2"}}))
    names = [variable["name"] for variable in spec["worker"]["environmentVariables"]]
    assert names == sorted(names)
    assert {"AAA", "ZZZ"} <= set(names)


def test_roles_that_cannot_move_are_not_scaled(build: Build) -> None:
    assert "autoScalingSpec" not in _spec(build())["pdSpec"]


def test_prefill_scales_on_its_own_queue(build: Build) -> None:
    deployment = build(
        {"autoscaling.prefill": {"min": 1, "max": 3}}, {"observability": {"prometheus_url": AMP}}
    )
    scaling = _spec(deployment)["pdSpec"]["autoScalingSpec"]
    assert set(scaling) == {"prefillAutoScaling"}
    (trigger,) = scaling["prefillAutoScaling"]["prometheusTriggerList"]
    assert trigger["serverAddress"] == AMP
    assert "vllm:num_requests_waiting" in trigger["query"]
    assert "decode-" not in trigger["query"]


def test_decode_scales_on_slots_and_kv_cache(build: Build) -> None:
    scaling = _spec(build({"autoscaling.decode": {"min": 1, "max": 2}}))["pdSpec"]["autoScalingSpec"]
    running, cache = scaling["decodingAutoScaling"]["prometheusTriggerList"]
    assert (running["targetValue"], running["metricType"]) == (22.4, "Average")
    assert (cache["targetValue"], cache["metricType"]) == (0.8, "Value")
    assert "prefill-" not in running["query"] + cache["query"]


@pytest.mark.parametrize(
    ("signal", "metric", "target"),
    [
        ("waiting", "vllm:num_requests_waiting", (2.0, "Average")),
        ("running", "vllm:num_requests_running", (22.4, "Average")),
        ("kv_cache", "vllm:kv_cache_usage_perc", (0.8, "Value")),
    ],
)
def test_a_role_scales_on_the_signal_asked_for(
    build: Build, signal: str, metric: str, target: tuple[float, str]
) -> None:
    deployment = build({"autoscaling.decode": {"min": 1, "max": 2, "signal": signal}})
    scaling = _spec(deployment)["pdSpec"]["autoScalingSpec"]["decodingAutoScaling"]
    (trigger,) = scaling["prometheusTriggerList"]
    assert metric in trigger["query"]
    assert (trigger["targetValue"], trigger["metricType"]) == target


def test_a_role_overrides_what_its_pods_ask_for(build: Build) -> None:
    edits = {"dpd.decode.resources": {"efa_devices": 16, "cpu": 40, "memory": "512GiB"}}
    pd = _spec(build(edits))["pdSpec"]
    assert pd["decodingSpec"]["resources"] == {
        "requests": {"cpu": 40, "memory": "512Gi", "nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16},
        "limits": {"memory": "512Gi", "nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16},
    }
    assert pd["prefillSpec"] == _spec(build())["pdSpec"]["prefillSpec"]


def test_p15_no_pod_joins_the_network_of_its_host(build: Build) -> None:
    text = to_yaml(manifests(build(), TOKENS))
    assert "hostNetwork" not in text
    assert "hostPath" not in text


def test_a_name_whose_service_would_be_too_long_is_refused(build: Build) -> None:
    with pytest.raises(ValidationError, match="name"):
        build({"name": "m" * 38})
    service = f"{'m' * 37}-{NAMESPACE}-routing-service"
    assert manifests(build({"name": "m" * 37}), TOKENS)
    assert len(service) == 63


def test_yaml_reads_back_as_it_was_and_repeats_nothing_by_anchor(build: Build) -> None:
    documents = manifests(build(), TOKENS)
    text = to_yaml(documents)
    assert list(yaml.safe_load_all(text)) == documents
    assert "&id" not in text
    assert text == to_yaml(manifests(build(), TOKENS))
