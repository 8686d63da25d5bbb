"""The kinds of addresses in the router's file. One that could lead nowhere is refused when it is read."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

Port = Annotated[int, Field(ge=0, le=65535)]


def _encodable(host: str) -> str:
    """Refuse what no resolver can be asked for."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("must be a host name or an address: 1 to 63 characters between two dots") from None
    return host


def _reachable(url: str) -> str:
    """Refuse a URL without a host, or with a port that is none."""
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0 or parts.netloc.endswith(":"):
        raise ValueError("needs a host, and no port or one from 1 to 65535")
    _encodable(parts.hostname)
    return url


Host = Annotated[str, Field(min_length=1), AfterValidator(_encodable)]
HttpUrl = Annotated[
    str,
    Field(pattern=r"^https?://[^/\s@?#]+$", examples=["http://127.0.0.1:8101"]),
    AfterValidator(_reachable),
]
ZmqAddress = Annotated[
    str,
    Field(pattern=r"^tcp://[^/\s]+:\d+$", examples=["tcp://10.1.0.7:5557"]),
    AfterValidator(_reachable),
]
