"""Keep each session at one prefiller, where the cache of its earlier turns is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from dpd.router.pool import least_loaded
from dpd.router.prompt import Prompt
from dpd.router.strategies.strategy import Strategy
from dpd.router.worker import Worker


class SessionAffinity(Strategy):
    """Rank the workers for each session by a hash of both names, and take the first: rendezvous hashing.

    A worker that comes or goes as one of N moves 1/N of the sessions, and a restart of the router moves
    none. A prompt without a session goes to the least loaded worker.
    """

    def choose(self, prompt: Prompt, candidates: Sequence[Worker]) -> Worker:
        """Return the session's worker; while it is not among the candidates, the session's next."""
        if not prompt.session:
            return least_loaded(candidates)
        return max(candidates, key=lambda worker: _rank(prompt.session, worker.name))


def _rank(session: str, worker: str) -> bytes:
    return blake2b(f"{worker}\0{session}".encode(errors="surrogatepass"), digest_size=8).digest()
