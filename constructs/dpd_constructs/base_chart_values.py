"""The values of HyperPod's base chart for a cluster that serves models and trains none."""

from __future__ import annotations

from typing import cast

from dpd.facts import Facts
from dpd.spec.environment import Environment


def base_chart_values(environment: Environment, facts: Facts) -> dict[str, object]:
    """Return the chart's values; every switch is set, so that a new default changes nothing.

    Names of the switches: `condition` of each dependency in Chart.yaml of aws/sagemaker-hyperpod-cli,
    helm_chart/HyperPodHelmChart, commit 067d658b.
    """
    values = _switches(environment, facts)
    for row in facts.chart_images.values():
        copy = environment.mirrored_image(row.reference)
        if copy is not None:
            repository, _, tag = copy.reference.partition(":")
            _set(values, row.repository_key, repository)
            # The charts join repository and tag with a colon, so that a digest may follow the tag.
            _set(values, row.tag_key, tag)
    return values


def _set(values: dict[str, object], key: str, value: str) -> None:
    *parents, last = key.split(".")
    for part in parents:
        values = cast("dict[str, object]", values.setdefault(part, {}))
    values[last] = value


def _switches(environment: Environment, facts: Facts) -> dict[str, object]:
    on, off = {"enabled": True}, {"enabled": False}
    gpu_types = sorted(name for name, row in facts.instances.items() if row.gpu_count)
    efa_types = sorted(name for name, row in facts.instances.items() if row.efa_devices)
    return {
        # Without a region the agent's image comes from a fixed one, which may be far away or closed.
        "health-monitoring-agent": {**on, "region": environment.region},
        # Node repair and patching look for these.
        "deep-health-check": on,
        "job-auto-restart": on,
        "hyperpod-patching": on,
        # The chart's own lists lack ml.p6-b300.48xlarge, and hold types without EFA, on which the
        # plugin crash-loops (sagemaker-hyperpod-cli#367).
        "nvidia-device-plugin": {"devicePlugin": on, "affinity": _on_instance_types(gpu_types)},
        "aws-efa-k8s-device-plugin": {
            "devicePlugin": on,
            "supportedInstanceLabels": {"values": efa_types},
        },
        "neuron-device-plugin": {"devicePlugin": off},
        # cert-manager and the inference operator come as EKS add-ons; two owners fight over the CRDs.
        "cert-manager": off,
        "inferenceOperators": off,
        # The device plugin above does this work.
        "gpu-operator": off,
        "trainingOperators": off,
        "mpi-operator": off,
        "hyperpod-ray-endpoint-operator": off,
        "mlflow": off,
        "storage": off,
        "cluster-role-and-bindings": off,
        # The chart's values misspell this switch as `enable`, which leaves the dependency on.
        "namespaced-role-and-bindings": off,
        "team-role-and-bindings": off,
    }


def _on_instance_types(names: list[str]) -> dict[str, object]:
    expression = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names}
    term = {"matchExpressions": [expression]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
