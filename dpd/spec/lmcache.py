"""LMCache's settings as the worker will see them, whoever wrote them and in whatever spelling.

A setting is the variable ``LMCACHE_<KEY>``, or the entry ``lmcache.<key>`` of the transfer configuration's
``kv_connector_extra_config``, which wins (LMCache 0.4.3 ``v1/config.py``, ``vllm_v1_adapter.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from dpd.facts import Facts
from dpd.spec.engine_args import EngineArgs

_PREFIX = "LMCACHE_"
_EXTRA_PREFIX = "lmcache."


@dataclass(frozen=True, slots=True)
class LmcacheSetting:
    """Hold one setting as text; ``variable`` is None where the transfer configuration has it."""

    value: str
    variable: str | None


def lmcache_settings(variables: Mapping[str, str], engine: EngineArgs) -> dict[str, LmcacheSetting]:
    """Return the settings by LMCache's own key, such as `use_layerwise`."""
    found = {
        name.upper().removeprefix(_PREFIX).lower(): LmcacheSetting(value, name)
        for name, value in variables.items()
        if name.upper().startswith(_PREFIX)
    }
    for key, value in extra_config(engine).items():
        if key.startswith(_EXTRA_PREFIX):
            found[key.removeprefix(_EXTRA_PREFIX)] = LmcacheSetting(_text(value), None)
    return found


def extra_config(engine: EngineArgs) -> Mapping[str, object]:
    """Return `kv_connector_extra_config` of the transfer configuration; empty where there is none."""
    config = engine.values.get("kv-transfer-config")
    extra = (
        cast("Mapping[str, object]", config).get("kv_connector_extra_config")
        if isinstance(config, Mapping)
        else None
    )
    return cast("Mapping[str, object]", extra) if isinstance(extra, Mapping) else {}


def chunk_tokens(variables: Mapping[str, str], engine: EngineArgs, facts: Facts) -> int:
    """Return the tokens of one page: `chunk_size` where it is a whole number (LMC003), else the default."""
    setting = lmcache_settings(variables, engine).get("chunk_size")
    asked = whole_number(setting.value) if setting else None
    return asked or int(facts.constant("lmcache_page_tokens"))


def whole_number(text: str) -> int | None:
    """Return a whole number of at most nine digits, as no setting needs more; None of anything else."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else None


def _text(value: object) -> str:
    """Return a JSON value as LMCache would read it from a variable."""
    if isinstance(value, list):
        return ",".join(str(item) for item in cast("list[object]", value))
    return str(value)
