"""What every environment file holds, wherever its models run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from dpd.closed_model import ClosedModel
from dpd.finding import Severity

# hyperpod-tls-dpd-<name>-<account>-<region> is a bucket name, at most 63 characters.
Name = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,16}[a-z0-9])?$", examples=["dev"])]


def _known_backend(value: object) -> object:
    """Name every back-end where one is misspelt; each schema by itself knows one."""
    if value not in ("hyperpod", "local"):
        expected = "'hyperpod' or 'local'"
        raise PydanticCustomError("literal_error", "input should be {expected}", {"expected": expected})
    return value


KNOWN_BACKEND = BeforeValidator(_known_backend)


class Accepted(ClosedModel):
    """Lower the severity of one finding, with the reason that is printed each time."""

    severity: Literal[Severity.WARNING, Severity.INFO]
    reason: Annotated[str, Field(min_length=10)]


class BaseEnvironment(ClosedModel):
    """Hold what every environment has."""

    name: Name
    models: tuple[str, ...] = ()
    overrides: dict[str, dict[str, Any]] = {}
    """Per model, the keys of the model file that differ here."""
    accept: dict[str, Accepted] = {}
    """Findings whose severity is lowered here, by id."""
