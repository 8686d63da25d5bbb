"""The rule catalogue: everything that can be known to be wrong without asking AWS."""

from dpd.rules.check import check
from dpd.rules.registry import Rule, rules

__all__ = ["Rule", "check", "rules"]
