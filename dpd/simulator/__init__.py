"""A worker that looks like vLLM with a KV connector from outside, needs no GPU, and fails on demand."""
