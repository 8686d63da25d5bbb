"""Facts about AWS, images and engines: data files in which every row names its source and date.

Each file of ``config/facts`` is a mapping from a row's key to the row. The loader refuses a row
without ``source`` and ``as_of``, so that no number in the product is without an origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Literal, get_args, get_type_hints

from dpd.closed_model import ClosedModel, validate
from dpd.fact import Fact
from dpd.finding import Finding, Severity
from dpd.network_facts import ChartImageFact, EndpointFact, NodeLabelFact, ServiceBucketFact
from dpd.quantity import GIB, MIB
from dpd.yaml_file import Path_, dotted, read_yaml


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


class RegionFact(Fact):
    """Describe what one region offers."""

    zone_ids: tuple[str, ...]
    control_plane_zone_ids: tuple[str, ...]
    """Zones in which EKS places a control plane."""
    hyperpod: bool
    operator_image_account: str | None = None
    """Account that serves the operator's images there; none means the operator does not run."""
    instance_types: tuple[str, ...] = ()
    """GPU types in the region's `AWS::SageMaker::Cluster` enumeration."""


class KubernetesFact(Fact):
    """Say which parts of the stack support one Kubernetes version."""

    hyperpod: bool
    operator: bool
    standard_support_until: date | None = None
    """Last day of EKS standard support; afterwards the control plane costs several times as much."""
    kubectl_layer_module: str | None = None
    """Python module with the kubectl layer of this version."""
    kubectl_layer_package: str | None = None
    helm_version: str | None = None


class OperatorFact(Fact):
    """Describe one version of the add-on amazon-sagemaker-hyperpod-inference."""

    operator_version: str
    supports_dpd: bool
    chart_version: str | None = None
    known_defects: tuple[str, ...] = ()


class AddonFact(Fact):
    """Describe an EKS add-on that the stacks install."""

    minimum_version: str
    default_version: str
    default_for_kubernetes: str | None = None
    """The one Kubernetes version that the default fits; none: any."""
    namespace: str
    service_account: str | None = None
    """Service account that assumes the add-on's role, where it has one."""


class AddonConfigurationFact(Fact):
    """List the configuration keys that an add-on accepts, in dotted form; `x.*` allows a subtree."""

    keys: tuple[str, ...]
    required: tuple[str, ...] = ()


class ChartFact(Fact):
    """Pin a Helm chart that exists only as a folder of a Git repository."""

    repository: str
    commit: str
    folder: str
    release: str
    namespace: str
    archive_sha256: str | None = None
    """SHA-256 of `git archive` of the folder, where somebody has measured it."""


class ImageFact(Fact):
    """Say what one worker image holds."""

    reference: str
    digest: str | None = None
    vllm_version: str
    lmcache_version: str | None = None
    nixl_version: str | None = None
    entrypoint: Literal["api_server", "vllm_serve"]
    efa: bool
    """True where the image is known to hold the EFA build of libfabric."""


class LmcacheFact(Fact):
    """Say how one LMCache release behaves as a prefill and decode transport."""

    decode_prefix_caching_safe: bool
    supports_mla: bool
    chunk_size_tokens: int
    defects: tuple[str, ...] = ()


FlagKind = Literal[
    "bool", "switch", "int", "count", "length", "float", "str", "optional", "json", "enum", "list"
]


class VllmFact(Fact):
    """List the server flags of one vLLM release."""

    flags: dict[str, FlagKind]
    """Long flag without dashes, to the kind of its value.

    A `bool` has a `no-` form, a `switch` has none. A `count` may be `16k`, a `length` also `auto` or -1.
    An `optional` may stand without a value.
    """
    aliases: dict[str, str] = {}
    """Short form, written with one dash, to the long flag."""
    removed: dict[str, str] = {}
    """Flag that an earlier release had, to what to use instead."""


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


class ConstantFact(Fact):
    """Hold one number that formulas use."""

    value: float
    unit: str


@dataclass(frozen=True)
class Facts:
    """Give typed access to the tables; one field is one file of ``config/facts``."""

    instances: Mapping[str, InstanceFact]
    gpus: Mapping[str, GpuFact]
    regions: Mapping[str, RegionFact]
    kubernetes: Mapping[str, KubernetesFact]
    operator: Mapping[str, OperatorFact]
    addons: Mapping[str, AddonFact]
    addon_configuration: Mapping[str, AddonConfigurationFact]
    charts: Mapping[str, ChartFact]
    images: Mapping[str, ImageFact]
    chart_images: Mapping[str, ChartImageFact]
    endpoints: Mapping[str, EndpointFact]
    service_buckets: Mapping[str, ServiceBucketFact]
    node_labels: Mapping[str, NodeLabelFact]
    lmcache: Mapping[str, LmcacheFact]
    vllm: Mapping[str, VllmFact]
    quotas: Mapping[str, QuotaFact]
    prices: Mapping[str, PriceFact]
    constants: Mapping[str, ConstantFact]

    def constant(self, name: str) -> float:
        """Return the value of one constant."""
        return self.constants[name].value

    def dpd_instance_types(self) -> tuple[str, ...]:
        """Return the instance types that can run disaggregated prefill and decode."""
        return tuple(sorted(name for name, row in self.instances.items() if row.supports_dpd))


def load_facts(folder: Path) -> tuple[Facts | None, list[Finding]]:
    """Read every table in ``folder``; a missing table or a bad row gives findings and no facts."""
    if not folder.is_dir():
        message, fix = "is not there", "point --config-dir at a folder with environments/, models/ and facts/"
        return None, [Finding("CFG005", Severity.ERROR, "", message, fix=fix, file=str(folder))]
    findings: list[Finding] = []
    tables: dict[str, dict[str, Fact]] = {}
    hints = get_type_hints(Facts)
    for table in fields(Facts):
        row_type: type[Fact] = get_args(hints[table.name])[1]
        tables[table.name], found = _load_table(folder / f"{table.name}.yaml", row_type)
        findings += found
    if findings:
        return None, findings
    return Facts(**tables), []  # pyright: ignore[reportArgumentType]


def _load_table(path: Path, row_type: type[Fact]) -> tuple[dict[str, Fact], list[Finding]]:
    file = read_yaml(path)
    findings = list(file.findings)
    rows: dict[str, Fact] = {}
    for key, row in file.data.items():

        def locate(loc: Path_, key: str = key) -> tuple[str, int | None, str]:
            return str(path), file.line((key, *loc)), dotted((key, *loc))

        if not isinstance(row, dict):
            message = f"row {key!r} must be a mapping"
            findings.append(
                Finding("CFG003", Severity.ERROR, key, message, file=str(path), line=file.line((key,)))
            )
            continue
        value, found = validate(row_type, row, locate)  # pyright: ignore[reportUnknownArgumentType]
        findings += found
        if value is not None:
            rows[str(key)] = value
    return rows, findings
