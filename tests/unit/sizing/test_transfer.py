"""Transfer times by prompt length."""

from __future__ import annotations

from typing import Any

import pytest

from dpd.facts import Facts
from dpd.sizing.transfer import transfer, transfer_table
from dpd.spec.deployment import Deployment, build_deployment


def deployment_of(workspace: Any, facts: Facts, **edits: object) -> Deployment:
    workspace.edit("llama", edits)
    catalog = workspace.load()
    loaded, _ = catalog.effective("dev", "llama-3.3-70b")
    return build_deployment(catalog.environments["dev"].value, loaded.value, facts)


def test_8000_tokens_take_single_digit_milliseconds(workspace: Any, facts: Facts) -> None:
    # 328 MB per rank at 50 GB/s; AWS's blog says single-digit milliseconds.
    found = transfer(deployment_of(workspace, facts), facts, 8000)
    assert found is not None
    assert found.bytes_per_rank == 327_680_000
    assert found.line_rate_s == pytest.approx(6.6e-3, rel=0.01)
    assert found.expected_s == pytest.approx(8e-3, rel=0.01)


def test_the_table_doubles_up_to_the_longest_prompt(workspace: Any, facts: Facts) -> None:
    rows = transfer_table(deployment_of(workspace, facts, **{"serving.max_model_len": 20_000}), facts)
    assert [row.tokens for row in rows] == [1024, 2048, 4096, 8192, 16_384, 20_000]
    assert rows[1].expected_s == pytest.approx(2 * rows[0].expected_s)


def test_a_context_under_the_first_step_is_its_only_row(workspace: Any, facts: Facts) -> None:
    rows = transfer_table(deployment_of(workspace, facts, **{"serving.max_model_len": 1000}), facts)
    assert [row.tokens for row in rows] == [1000]


def test_colocated_models_and_unknown_networks_transfer_nothing(workspace: Any, facts: Facts) -> None:
    assert transfer_table(deployment_of(workspace, facts, **{"serving.mode": "colocated"}), facts) == ()
    workspace.reset()
    workspace.edit("dev", {"hyperpod.groups.decode.instance_type": "ml.unknown"})
    assert transfer(deployment_of(workspace, facts), facts, 8000) is None
