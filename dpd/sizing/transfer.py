"""How long the KV cache of a prompt takes from prefill to decode."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.sizing.kv_cache import kv_cache, transfer_seconds
from dpd.spec.deployment import Deployment

_SHORTEST_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Transfer:
    """Hold the time on the wire for one prompt length; queueing and the router's part come in addition."""

    tokens: int
    bytes_per_rank: int
    line_rate_s: float
    expected_s: float
    """At the share of line rate that the facts name."""


def transfer(deployment: Deployment, facts: Facts, tokens: int) -> Transfer | None:
    """Return the transfer of one prompt; None where nothing is transferred or the network is not known."""
    if not deployment.disaggregated:
        return None
    role = deployment.role("decode")
    if role.instance is None or not role.instance.gpu_count:
        return None
    per_token = kv_cache(deployment.model, role).bytes_per_token
    line_rate_s = transfer_seconds(tokens, per_token, role.instance.network_gbps / role.instance.gpu_count)
    efficiency = facts.constant("efa_line_efficiency")
    return Transfer(tokens, tokens * per_token, line_rate_s, line_rate_s / efficiency)


def transfer_table(deployment: Deployment, facts: Facts) -> tuple[Transfer, ...]:
    """Return transfers of 1k, 2k, 4k ... tokens up to the longest prompt, which ends the table."""
    longest = deployment.max_model_len
    lengths = [_SHORTEST_TOKENS << step for step in range(30) if _SHORTEST_TOKENS << step < longest]
    rows = (transfer(deployment, facts, tokens) for tokens in (*lengths, longest))
    return tuple(row for row in rows if row is not None)
