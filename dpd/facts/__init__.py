"""Facts about AWS, images and engines: data files in which every row names its source and date.

Each file of ``config/facts`` is a mapping from a row's key to the row. The loader refuses a row
without ``source`` and ``as_of``, so that no number in the product is without an origin.
"""

from __future__ import annotations

from dpd.fact import Fact
from dpd.facts.engine import (
    FeatureFact,
    FlagKind,
    ImageFact,
    LmcacheFact,
    LmcacheSettingFact,
    NixlFact,
    VllmFact,
)
from dpd.facts.hardware import Gpu, GpuFact, InstanceFact, PriceFact, QuotaFact
from dpd.facts.platform import (
    AddonConfigurationFact,
    AddonFact,
    ChartFact,
    KubernetesFact,
    OperatorFact,
    RegionFact,
    VpcRangeFact,
)
from dpd.facts.tables import ConstantFact, Facts, load_facts
from dpd.network_facts import ChartImageFact, EndpointFact, NodeLabelFact, ServiceBucketFact

__all__ = [
    "AddonConfigurationFact",
    "AddonFact",
    "ChartFact",
    "ChartImageFact",
    "ConstantFact",
    "EndpointFact",
    "Fact",
    "Facts",
    "FeatureFact",
    "FlagKind",
    "Gpu",
    "GpuFact",
    "ImageFact",
    "InstanceFact",
    "KubernetesFact",
    "LmcacheFact",
    "LmcacheSettingFact",
    "NixlFact",
    "NodeLabelFact",
    "OperatorFact",
    "PriceFact",
    "QuotaFact",
    "RegionFact",
    "ServiceBucketFact",
    "VllmFact",
    "VpcRangeFact",
    "load_facts",
]
