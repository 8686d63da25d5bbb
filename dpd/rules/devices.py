"""EFA: the devices that a pod asks for, and what would hide them."""

from __future__ import annotations

from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, loader_rule, model_rule
from dpd.spec.pod_resources import efa_share


@model_rule(
    "EFA003",
    Severity.ERROR,
    Doc(
        title="EFA devices are not the share of the pod's GPUs",
        symptom="Pods stay Pending, or KV cache crawls over the few devices that a GPU got (P-29, P-35).",
        cause="Each GPU has its own devices on the same PCI switch; fewer halve the rate, more do not exist.",
        fix="Leave `resources.efa_devices` out, or write the number in the message.",
        source="docs.aws.amazon.com: AWSEC2 efa-acc-inst-types",
        bad="dpd: {decode: {resources: {efa_devices: 8}}}  # 8 GPUs of ml.p5.48xlarge, which has 32",
        good="dpd: {decode: {resources: {efa_devices: 32}}}",
    ),
)
def efa_devices(context: ModelContext) -> Iterable[Hit]:
    """Compare each role's devices with its share of the node; CAP006 and SRV006 report impossible roles."""
    for role in context.deployment.roles:
        instance, asked = role.instance, role.resources
        if instance is None or not instance.supports_dpd or asked.gpus > instance.gpu_count:
            continue
        share = efa_share(asked.gpus, instance)
        if asked.efa_devices == share:
            continue
        yield Hit(
            path=("dpd", role.name, "resources", "efa_devices"),
            message=(
                f"{role.name} asks for {asked.efa_devices} EFA devices; {asked.gpus} of "
                f"{instance.gpu_count} GPUs of {role.group.instance_type} go with {share} of "
                f"{instance.efa_devices}"
            ),
            got=asked.efa_devices,
            allowed=share,
            fix=f"remove it or write {share}",
        )


loader_rule(
    "EFA004",
    Severity.ERROR,
    Doc(
        title="Host mount that hides EFA devices",
        symptom="The pod asks for EFA devices, gets them, and sees none of them (P-38).",
        cause="A hostPath volume over /dev/infiniband covers the devices that the plugin put there.",
        fix="Remove the volume; the device plugin mounts what the pod needs.",
        source="aws-samples/aws-do-eks#63",
        bad="volumes: [{name: rdma, hostPath: {path: /dev/infiniband}}]",
        good="volumes: []  # and resources.limits: vpc.amazonaws.com/efa",
    ),
)
