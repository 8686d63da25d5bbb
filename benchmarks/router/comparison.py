"""Compare no router, this one and the Rust one under the same loads, taking turns."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from processes import Processes, Server, load, metric, rust_disaggregated, rust_plain
from streams import Job, Result

ITL_MS = 20.0
THRESHOLD_TOKENS = 1024
PROMPT_CHARACTERS = {"bypass": 200, "disaggregated": 8000}
"""On either side of the threshold, at four characters a token."""
NONE, OURS, RUST = SUBJECTS = ("no router", "dpd.router", "vllm-router")
_PULLS = "vllm:nixl_xfer_time_seconds_count"


@dataclass(frozen=True)
class Size:
    """Say how many streams run, how long each answer is, and how many requests a measurement has.

    Few streams get short answers: they need many requests for quantiles, and each stream is paced.
    """

    streams: int
    answer_tokens: int
    requests: int


SIZES = (Size(1, 8, 60), Size(8, 32, 160), Size(64, 64, 576), Size(256, 64, 1792))


@dataclass(frozen=True)
class Place:
    """Hold the processes of one comparison."""

    prefill: Server
    decode: Server
    ours: Server
    rust: dict[str, Server]

    def measure(self, subject: str, path: str, size: Size) -> Result:
        """Load one subject, and see in the decoder's metrics that prompts took the path that is measured."""
        server = {NONE: self.decode, OURS: self.ours, RUST: self.rust[path]}[subject]
        direct = subject == NONE
        hands_over = path == "disaggregated"
        job = Job(
            port=server.port,
            prefill_port=self.prefill.port if direct and hands_over else None,
            pid=None if direct else server.pid,
            streams=size.streams,
            prompt_characters=PROMPT_CHARACTERS[path],
            answer_tokens=size.answer_tokens,
            itl_s=ITL_MS / 1000,
            warm_up=size.streams + 1,
            requests=size.requests,
        )
        pulls = metric(self.decode, _PULLS)
        result = load(job)
        pulls = metric(self.decode, _PULLS) - pulls
        expected = pulls >= size.requests if hands_over else pulls == 0
        if not expected:
            raise SystemExit(f"{subject}, {path}: {pulls:g} hand-overs for {size.requests} requests")
        return result


def compare(sizes: Sequence[Size], rounds: int) -> None:
    """Measure everything ``rounds`` times, and print medians over the rounds."""
    results: dict[tuple[str, Size, str], list[Result]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = start(Processes(stack, folder))
        for number in range(rounds):
            turn = number % len(SUBJECTS)
            for path in PROMPT_CHARACTERS:
                for size in sizes:
                    for subject in (*SUBJECTS[turn:], *SUBJECTS[:turn]):
                        results[path, size, subject].append(place.measure(subject, path, size))
            print(f"round {number + 1} of {rounds} is done", flush=True)
    print(
        f"\n{'path':15}{'streams':>8}  {'subject':12}{'added p50 ms':>13}{'added p99 ms':>13}{'chunks/s':>10}"
        f"{'CPU us/chunk':>14}{'of Rust':>9}"
    )
    for path in PROMPT_CHARACTERS:
        for size in sizes:
            for subject in SUBJECTS:
                print(row(path, size, subject, {one: results[path, size, one] for one in SUBJECTS}))


def start(processes: Processes) -> Place:
    """Start every process of a comparison."""
    prefill, decode = processes.worker("prefill", 0), processes.worker("decode", ITL_MS)
    ours = processes.router(prefill, decode, threshold_tokens=THRESHOLD_TOKENS)
    rust = {
        "disaggregated": processes.rust_router(rust_disaggregated(prefill, decode)),
        "bypass": processes.rust_router(rust_plain(decode)),
    }
    return Place(prefill, decode, ours, rust)


def row(path: str, size: Size, subject: str, results: Mapping[str, Sequence[Result]]) -> str:
    """Return one line: what a subject adds to the TTFT without a router (there: the TTFT itself), and costs.

    Differences and ratios are taken within a round, whose measurements are seconds apart.
    """
    own = results[subject]
    added_ms = [
        median(
            1000 * (quantile(one, share) - (0 if subject == NONE else quantile(direct, share)))
            for one, direct in zip(own, results[NONE], strict=True)
        )
        for share in (0.5, 0.99)
    ]
    chunks_per_s = median(one.events / one.window_s for one in own)
    line = (
        f"{path:15}{size.streams:8}  {subject:12}{added_ms[0]:13.2f}{added_ms[1]:13.2f}{chunks_per_s:10.0f}"
    )
    if subject == NONE:
        return line
    cpu_us = median(map(cpu_us_per_chunk, own))
    pairs = zip(map(cpu_us_per_chunk, own), map(cpu_us_per_chunk, results[RUST]), strict=True)
    return f"{line}{cpu_us:14.1f}{median(ours / rust for ours, rust in pairs):9.2f}"


def cpu_us_per_chunk(result: Result) -> float:
    """Return user and system time of the router for one streamed chunk, those of requests included."""
    return 1e6 * result.cpu_s / result.events


def quantile(result: Result, share: float) -> float:
    """Return a quantile of the TTFT, in seconds."""
    ordered = sorted(result.ttft_s)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
