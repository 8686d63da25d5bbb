"""Which schema an environment file has: that of its back-end."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from dpd.closed_model import ClosedModel
from dpd.finding import Finding, Severity
from dpd.spec.environment import Environment
from dpd.spec.local import LocalEnvironment
from dpd.spec.merge import Merged

AnyEnvironment = Environment | LocalEnvironment

_SCHEMAS: dict[str, type[AnyEnvironment]] = {"hyperpod": Environment, "local": LocalEnvironment}


def environment_schema(data: Mapping[str, object]) -> type[AnyEnvironment]:
    """Return the schema of the back-end that a file names or nearly names; without one it is HyperPod's."""
    near = difflib.get_close_matches(str(data.get("backend")), _SCHEMAS, n=1)
    return _SCHEMAS[near[0]] if near else Environment


def foreign_keys(schema: type[ClosedModel], written: Merged) -> tuple[Merged, list[Finding]]:
    """Take out the keys that only the other back-end has, with a CFG008 for each, and return the rest."""
    data, findings = dict(written.data), list[Finding]()
    for other, fields in _SCHEMAS.items() if schema in _SCHEMAS.values() else ():
        for key in [key for key in data if key in fields.model_fields and key not in schema.model_fields]:
            del data[key]
            origin = written.origin((key,))
            findings.append(
                Finding(
                    id="CFG008",
                    severity=Severity.ERROR,
                    path=origin.path,
                    message=f"key `{key}` belongs to `backend: {other}` and means nothing here",
                    got=key,
                    allowed=sorted(schema.model_fields),
                    fix=f"remove it, or set `backend: {other}`",
                    file=origin.file,
                    line=origin.line,
                )
            )
    return Merged(data, written.origins, written.fallback), findings
