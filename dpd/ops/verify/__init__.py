"""Prove by positive evidence that prefill and decode are disaggregated."""
