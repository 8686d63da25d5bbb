"""The whole manifest of the dev environment, reviewed as a document.

After a change that is meant, write it anew with ``UPDATE_GOLDEN=1 pytest tests/golden`` and read
the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from dpd.spec.catalog import load_catalog
from dpd.spec.deployment import build_deployment
from k8s.render import Bindings, Manifest, manifests, to_yaml

GOLDEN = Path(__file__).parent / "llama-3.3-70b.dev.yaml"
CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def documents() -> list[Manifest]:
    """Render the dev environment with readable bucket names."""
    catalog = load_catalog(CONFIG)
    environment, facts = catalog.environments["dev"].value, catalog.facts
    model = catalog.effective("dev", "llama-3.3-70b")[0].value
    assert environment is not None
    assert model is not None
    assert facts is not None
    deployment = build_deployment(environment, model, facts)
    return manifests(deployment, Bindings("weights-bucket", "hyperpod-tls-bucket"))


def test_dev_manifest_is_the_reviewed_one(documents: list[Manifest]) -> None:
    text = to_yaml(documents)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_dev_manifest_agrees_with_the_documented_example(documents: list[Manifest]) -> None:
    """Every value that page sagemaker-hyperpod-model-deployment-dpd states is here, with its meaning."""
    spec = cast("dict[str, Any]", documents[1]["spec"])
    worker, pd = spec["worker"], spec["pdSpec"]
    variables = {item["name"]: item["value"] for item in worker["environmentVariables"]}
    assert documents[1]["apiVersion"] == "inference.sagemaker.aws.amazon.com/v1"
    assert documents[1]["kind"] == "InferenceEndpointConfig"
    assert worker["image"].partition("@")[0].endswith("vllm:server-hyperpod-cuda-v1.1")
    assert variables["PD_BUFFER_SIZE"] == str(819 * 10 * 1024**2), "P-50: whole pages of 10 MiB"
    assert variables["LMCACHE_SAVE_DECODE_CACHE"] == "False"
    assert variables["PYTHONHASHSEED"] == "0"
    assert pd["routingThreshold"] == 4096
    assert spec["intelligentRoutingSpec"] == {"enabled": True, "routingStrategy": "prefixaware"}
    assert spec["loadBalancer"]["healthCheckPath"] == "/health"
    assert spec["instanceType"] == "ml.p5.48xlarge"
    assert _value(worker["args"], "--gpu-memory-utilization") == "0.75"
    for role, sequences in (("prefillSpec", "16"), ("decodingSpec", "32")):
        assert _value(pd[role]["args"], "--max-num-seqs") == sequences
        assert pd[role]["resources"]["limits"]["nvidia.com/gpu"] == 8
        assert pd[role]["replicas"] == 1


def _value(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]
