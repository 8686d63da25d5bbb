"""The ways of choosing a prefiller: one module each, and what they share."""

from __future__ import annotations

from dpd.router.config import RouterConfig
from dpd.router.strategies.kvaware import KvAware
from dpd.router.strategies.prefixaware import PrefixAware
from dpd.router.strategies.roundrobin import RoundRobin
from dpd.router.strategies.session import SessionAffinity
from dpd.router.strategies.strategy import Strategy

__all__ = ["Strategy", "build_strategy"]


def build_strategy(config: RouterConfig) -> Strategy:
    """Return the strategy that ``routing.strategy`` names."""
    index_bytes = config.routing.prefix_index_bytes
    match config.routing.strategy:
        case "roundrobin":
            return RoundRobin()
        case "session":
            return SessionAffinity()
        case "prefixaware":
            return PrefixAware(index_bytes)
        case "kvaware":
            return KvAware(index_bytes)
