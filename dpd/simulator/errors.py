"""How a request can end other than with an answer. The texts and types are vLLM 0.32's."""

from __future__ import annotations

from http import HTTPStatus

from dpd.simulator.faults import Fault

_TYPES = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}


class ApiError(Exception):
    """End a request with an OpenAI-shaped error."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param

    def body(self) -> dict[str, object]:
        """Return the body of the answer, and of the last event of a stream that had begun."""
        kind = _TYPES.get(self.status, HTTPStatus(self.status).phrase)
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.status}
        return {"error": error}


class EngineDead(ApiError):
    """End every request at a worker whose engine died."""

    def __init__(self, cause: str) -> None:
        super().__init__(500, f"EngineCore encountered an issue: {cause}")
        self.cause = cause


class Died(Exception):
    """End a request by a reset of its connection."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.kind)
        self.fault = fault
