"""Watch the router's memory over many short requests of both paths."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import linear_regression

import psutil
from comparison import PROMPT_CHARACTERS, THRESHOLD_TOKENS
from processes import Processes, load
from streams import Job

STEPS = 10
WARM_UP_STEPS = 3
STEP_REQUESTS = 10_000
STREAMS = 32
PREFIX_INDEX_BYTES = 8 * 2**20
"""Full within the first step, so that what grows after it is a leak. No two prompts share a prefix."""


def watch_memory() -> None:
    """Print the resident memory after each step, and the slope after those that warm up."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = Processes(stack, folder)
        prefill, decode = processes.worker("prefill", 0), processes.worker("decode", 0)
        router = processes.router(
            prefill, decode, threshold_tokens=THRESHOLD_TOKENS, prefix_index_bytes=PREFIX_INDEX_BYTES
        )
        memory = psutil.Process(router.pid).memory_info
        print(f"{'requests':>9}{'MiB':>8}\n{0:>9}{memory().rss / 2**20:8.1f}")
        resident: list[int] = []
        for step in range(1, STEPS + 1):
            for characters in PROMPT_CHARACTERS.values():
                load(job(router.port, characters))
            resident.append(memory().rss)
            print(f"{step * STEP_REQUESTS:>9}{resident[-1] / 2**20:8.1f}", flush=True)
        settled = resident[WARM_UP_STEPS - 1 :]
        slope = linear_regression([STEP_REQUESTS * step for step in range(len(settled))], settled).slope
    print(f"after {WARM_UP_STEPS * STEP_REQUESTS} requests: {slope:+.1f} bytes per request")


def job(port: int, prompt_characters: int) -> Job:
    """Return half a step: answers of two tokens, as fast as they come."""
    return Job(
        port=port,
        prefill_port=None,
        pid=None,
        streams=STREAMS,
        prompt_characters=prompt_characters,
        answer_tokens=2,
        itl_s=0.0,
        warm_up=1,
        requests=STEP_REQUESTS // len(PROMPT_CHARACTERS),
    )
