"""The ways of finding workers: one module each, and what they share."""

from __future__ import annotations

import os

from dpd.router.config import RouterConfig
from dpd.router.discovery.cluster import Cluster, NotInCluster
from dpd.router.discovery.dns import DnsLookups
from dpd.router.discovery.kubernetes import EndpointSliceWatch
from dpd.router.discovery.source import Publish, Source
from dpd.router.discovery.static import StaticSource

__all__ = ["NotInCluster", "Publish", "Source", "build_source"]


def build_source(config: RouterConfig) -> Source:
    """Return the source that ``workers.source`` names; raises NotInCluster."""
    workers = config.workers
    if workers.source == "dns" and workers.dns is not None:
        return DnsLookups(config, workers.dns)
    if workers.source == "kubernetes" and workers.kubernetes is not None:
        return EndpointSliceWatch(config, workers.kubernetes, Cluster.find(workers.kubernetes, os.environ))
    return StaticSource(config)
