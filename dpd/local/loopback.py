"""Plain requests to servers on this machine."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

# A proxy of the user's cannot reach this machine's loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswer(Exception):
    """Say why a server gave no answer, or no good one."""


def fetch(url: str, *, timeout_s: float, body: Mapping[str, object] | None = None) -> str:
    """GET ``url``, or POST ``body`` as JSON, and return the answer's text; raises NoAnswer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 - loopback
    try:
        with _opener.open(request, timeout=timeout_s) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode(errors="replace")
        raise NoAnswer(f"{url} answered {error.code}: {text[:500]}") from None
    except (OSError, HTTPException) as error:
        raise NoAnswer(f"{url}: {error}") from None


def answers(url: str, *, timeout_s: float) -> bool:
    """Tell whether a GET of ``url`` succeeds."""
    try:
        fetch(url, timeout_s=timeout_s)
    except NoAnswer:
        return False
    return True
