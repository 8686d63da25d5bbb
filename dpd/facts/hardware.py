"""Facts about accelerators, instance types, what they cost and how many an account may have."""

from __future__ import annotations

from typing import Literal

from dpd.closed_model import ClosedModel
from dpd.fact import Fact
from dpd.quantity import GIB, MIB


class Gpu(ClosedModel):
    """Describe the accelerators of one instance type."""

    model: str
    """Key of gpus.yaml, where its rates are known."""
    count: int
    memory_mib: int
    """Memory of one GPU as Kubernetes and Karpenter report it."""


class GpuFact(Fact):
    """State the peak rates of one GPU model."""

    bf16_tflops: float
    """Dense bf16 TFLOP per second; data sheets often state twice that, with sparsity."""
    memory_gb_per_s: float
    nvlink_gb_per_s: float
    """One direction."""


class InstanceFact(Fact):
    """Describe one SageMaker instance type."""

    architecture: Literal["amd64", "arm64"]
    vcpus: int
    memory_gib: int
    network_gbps: float
    efa_devices: int = 0
    gpu: Gpu | None = None
    addresses_per_node: int
    """Addresses one node takes from its subnet under EKS."""
    pods_per_node: int
    network_label_layers: int = 0
    """How many `topology.k8s.aws/network-node-layer-N` labels HyperPod sets."""
    supports_dpd: bool = False
    minimum_efa_plugin: str | None = None
    """Oldest EFA device plugin that counts the type's devices rightly; none: any."""

    @property
    def gpu_memory_bytes(self) -> int:
        """Return the memory of one GPU in bytes, 0 without a GPU."""
        return self.gpu.memory_mib * MIB if self.gpu else 0

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs, 0 without one."""
        return self.gpu.count if self.gpu else 0

    @property
    def memory_bytes(self) -> int:
        """Return the host memory in bytes."""
        return self.memory_gib * GIB


class QuotaFact(Fact):
    """Name one service quota."""

    service: str
    quota_name: str
    code: str | None = None
    default: float | None = None
    instance_type: str | None = None


class PriceFact(Fact):
    """State what one unit costs in one region."""

    usd_per_hour: float
    region: str
    basis: Literal["published", "reported", "derived"]
