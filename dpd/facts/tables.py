"""Read the tables of ``config/facts``, each a mapping from a row's key to the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args, get_type_hints

from dpd.closed_model import validate
from dpd.fact import Fact
from dpd.facts.engine import FeatureFact, ImageFact, LmcacheFact, LmcacheSettingFact, NixlFact, VllmFact
from dpd.facts.hardware import GpuFact, InstanceFact, PriceFact, QuotaFact
from dpd.facts.platform import (
    AddonConfigurationFact,
    AddonFact,
    ChartFact,
    KubernetesFact,
    OperatorFact,
    RegionFact,
    VpcRangeFact,
)
from dpd.finding import Finding, Severity
from dpd.network_facts import ChartImageFact, EndpointFact, NodeLabelFact, ServiceBucketFact
from dpd.yaml_file import Path_, dotted, read_yaml


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
    vpc_ranges: Mapping[str, VpcRangeFact]
    kubernetes: Mapping[str, KubernetesFact]
    operator: Mapping[str, OperatorFact]
    addons: Mapping[str, AddonFact]
    addon_configuration: Mapping[str, AddonConfigurationFact]
    charts: Mapping[str, ChartFact]
    images: Mapping[str, ImageFact]
    engines: Mapping[str, ImageFact]
    chart_images: Mapping[str, ChartImageFact]
    endpoints: Mapping[str, EndpointFact]
    service_buckets: Mapping[str, ServiceBucketFact]
    node_labels: Mapping[str, NodeLabelFact]
    lmcache: Mapping[str, LmcacheFact]
    lmcache_settings: Mapping[str, LmcacheSettingFact]
    nixl: Mapping[str, NixlFact]
    features: Mapping[str, FeatureFact]
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
