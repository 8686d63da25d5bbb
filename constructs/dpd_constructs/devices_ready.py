"""The wait for the devices of the GPU nodes."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import ROLE_LABEL
from dpd.spec.environment import Environment
from dpd_constructs.instance_groups import SYSTEM_GROUP, named_groups
from dpd_constructs.kubernetes_waits import KubernetesWaits


def devices_ready(
    scope: Construct, construct_id: str, *, environment: Environment, facts: Facts, waits: KubernetesWaits
) -> cdk.CustomResource:
    """Wait until every GPU node offers all of its GPUs and EFA devices; groups of no node ask for nothing."""
    groups = [
        {
            "Name": name,
            "Label": ROLE_LABEL,
            "Count": group.count,
            # Fallback types have the same counts (CAP015).
            "Devices": {
                "nvidia.com/gpu": facts.instances[group.instance_type].gpu_count,
                "vpc.amazonaws.com/efa": facts.instances[group.instance_type].efa_devices,
            },
        }
        for name, group in named_groups(environment.hyperpod).items()
        if name != SYSTEM_GROUP
    ]
    return waits.wait(
        scope,
        construct_id,
        check="devices",
        resource_type="Custom::GpuDevicesReady",
        properties={"Groups": groups},
    )
