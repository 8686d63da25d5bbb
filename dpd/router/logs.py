"""Write the log as one JSON object a line, on standard error."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

_encode = msgspec.json.Encoder(enc_hook=str).encode
_OWN = set(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Join time, level, logger, message and every field given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _OWN},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line).decode()


def _without_clients_mistakes(record: logging.LogRecord) -> bool:
    """Turn a traceback for what is not HTTP into one line: no defect, and anybody could fill the log."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = None
        record.why = str(error)
    return True


def log_as_json(level: str) -> None:
    """Send every logger's lines of at least ``level`` to standard error."""
    logging.getLogger("aiohttp.server").addFilter(_without_clients_mistakes)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
