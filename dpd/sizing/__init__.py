"""Sizes of KV cache, GPU memory, capacity and cost; pure functions of the specification."""
