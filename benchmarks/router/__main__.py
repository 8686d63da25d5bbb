"""What the router costs, beside the Rust `vllm-router` and beside none: ``python benchmarks/router``.

Simulated workers (NIXL, a token per stream every 20 ms, no time for prompts and transfers) are asked for
streamed chat completions on both paths, at 1, 8, 64 and 256 concurrent streams: by a client that needs no
router and hands over itself, through this router, and through the Rust one. They take turns, so that a
noisy machine changes all. Prints the TTFT that a router adds (quantiles, subtracted within a round), streamed
chunks per second, and the router's CPU time (user and system) per streamed chunk: medians over the rounds.
``--memory`` prints the router's resident memory over 100,000 requests instead. Needs requirements-dev.txt
and, for its first run, PyPI.

Aims: added TTFT of at most 1 ms (p50) and 5 ms (p99) at 64 streams, at most twice the CPU time per chunk of
the Rust router, flat memory.
"""

from __future__ import annotations

import argparse

from comparison import SIZES, compare
from memory import watch_memory


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(prog="benchmarks/router", description="What the router costs.")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (5 minutes each) [%(default)s]")
    every = [size.streams for size in SIZES]
    parser.add_argument(
        "--streams", type=int, nargs="+", choices=every, default=every, help="numbers of concurrent streams"
    )
    parser.add_argument("--memory", action="store_true", help="watch resident memory instead")
    arguments = parser.parse_args()
    if arguments.memory:
        watch_memory()
    else:
        compare([size for size in SIZES if size.streams in arguments.streams], arguments.rounds)


if __name__ == "__main__":
    main()
