"""Host memory and cores of a pod, beside the pods of the system."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.quantity import GIB
from dpd.sizing.host import Host, host
from dpd.spec.deployment import RoleName, build_deployment


def host_of(workspace: Any, facts: Facts, role: RoleName, **edits: object) -> Host:
    workspace.edit("llama", edits)
    catalog = workspace.load()
    loaded, _ = catalog.effective("dev", "llama-3.3-70b")
    deployment = build_deployment(catalog.environments["dev"].value, loaded.value, facts)
    found = host(deployment.role(role), facts)
    assert found is not None
    return found


def test_the_host_cache_counts_once_per_rank(workspace: Any, facts: Facts) -> None:
    found = host_of(workspace, facts, "prefill", **{"dpd.l1_cache.size_per_rank": "20GiB"})
    assert found.l1_cache_bytes == 160 * GIB
    assert found.needed_bytes == (128 + 160 + 16) * GIB
    assert host_of(workspace, facts, "decode").l1_cache_bytes == 0, "the decoder caches nothing"


def test_system_pods_keep_memory_beside_the_engine(workspace: Any, facts: Facts) -> None:
    found = host_of(workspace, facts, "prefill")
    # Karpenter's estimate for EC2 p5.48xlarge: 1,938,410 MiB.
    assert found.node_allocatable_bytes == pytest.approx(1_938_410 * 2**20, rel=0.001)
    assert 40 * GIB < found.node_allocatable_bytes - found.share_bytes < 60 * GIB
    assert found.cores < found.node_cores


def test_two_pods_on_a_node_share_it(workspace: Any, facts: Facts) -> None:
    whole = host_of(workspace, facts, "prefill")
    half = host_of(workspace, facts, "prefill", **{"serving.tensor_parallel": 4})
    assert half.share_bytes == pytest.approx(whole.share_bytes / 2, abs=GIB)
    assert half.cores == whole.cores / 2
