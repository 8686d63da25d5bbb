"""Disaggregated prefill and decode on Amazon SageMaker HyperPod, from configuration to proof."""

__version__ = "0.1.0"
