"""Fill the architecture of a model from its Hugging Face ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from dpd.finding import Finding, Severity
from dpd.spec.merge import Merged, Origin, merge
from dpd.spec.model_family import FAMILIES, Family, NotReadable, Reader, Values
from dpd.yaml_file import Path_

_DTYPES = {"bfloat16", "float16", "float32"}
_PATH: Path_ = ("architecture", "config_json")


def fill_architecture(merged: Merged) -> tuple[Merged, list[Finding]]:
    """Lay ``merged`` over what its ``architecture.config_json`` says; a file that says nothing gives CFG003.

    The path is relative to the file that names it. Each value that the JSON file gave has it as its origin.
    """
    architecture = merged.data.get("architecture")
    given = cast("Values", architecture) if isinstance(architecture, dict) else {}
    name = given.get("config_json")
    if not isinstance(name, str):
        return merged, []
    origin = merged.origin(_PATH)
    path = Path(origin.file).parent / name
    try:
        found = read_config_json(path, frozenset(given))
    except NotReadable as problem:
        return merged, [_finding(path, problem, origin)]
    origins: dict[Path_, Origin] = {("architecture", key): Origin(str(path), None, key) for key in found}
    # Where the mapping itself stands, for a key that neither file holds.
    origins[("architecture",)] = merged.origin(("architecture",))
    below = Merged({"architecture": found}, origins, merged.fallback)
    return merge(below, merged.data, merged.origins), []


def _finding(path: Path, problem: NotReadable, origin: Origin) -> Finding:
    return Finding(
        id="CFG003",
        severity=Severity.ERROR,
        path=origin.path,
        message=f"{path} {problem}",
        got=str(path),
        allowed=list(FAMILIES),
        fix="name the config.json of a known family, or write the keys of `architecture` instead",
        file=origin.file,
        line=origin.line,
    )


def read_config_json(path: Path, given: frozenset[str] = frozenset()) -> Values:
    """Return the architecture that ``path`` describes under our keys, without those ``given`` beside it.

    Raises NotReadable, with the reason, for a file that is absent or not JSON, for a family or a
    quantisation that is not known, and for a missing key.
    """
    whole = Reader(_load(path))
    inner = whole.values.get("text_config")
    reader = Reader(cast("Values", inner)) if isinstance(inner, dict) else whole
    name = reader.text("model_type")
    family = FAMILIES.get(name)
    if family is None:
        raise NotReadable(f"has model_type `{name}`; known are {', '.join(FAMILIES)}")
    values = _values(reader, family)
    if "quantization" not in given:
        values["quantization"] = _quantization(whole if "quantization_config" in whole.values else reader)
    dtype = reader.text("dtype", "torch_dtype") or whole.text("dtype", "torch_dtype")
    values["dtype"] = dtype if dtype in _DTYPES else None
    return {key: value for key, value in values.items() if key not in given and value is not None}


def _load(path: Path) -> Values:
    try:
        loaded: object = json.loads(path.read_bytes())
    except OSError as error:
        raise NotReadable(f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise NotReadable("is nested too deeply") from None
    except ValueError as error:
        raise NotReadable(f"is not valid JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise NotReadable("must hold an object at its top level")
    return cast("Values", loaded)


def _values(reader: Reader, family: Family) -> Values:
    layers, heads = reader.count("num_hidden_layers"), reader.count("num_attention_heads")
    hidden = reader.count("hidden_size")
    if not layers or not heads or not hidden:
        raise NotReadable("has no layers, no attention heads or no hidden size")
    feed_forward = family.layers(reader)
    window, window_layers = family.window(reader)
    embedding = reader.count("vocab_size") * hidden
    tied = reader.flag("tie_word_embeddings")
    if family.latent:
        head_dim = reader.count("qk_nope_head_dim") + reader.count("qk_rope_head_dim")
        attention = _latent_attention(reader, heads, head_dim)
    else:
        head_dim = reader.count("head_dim", hidden // heads)
        attention = 2 * hidden * head_dim * (heads + reader.count("num_key_value_heads", heads))
    total = embedding * (1 if tied else 2) + layers * attention + feed_forward.parameters(active=False)
    active = embedding + layers * attention + feed_forward.parameters(active=True)
    moe = feed_forward.sparse > 0
    return {
        "parameters": float(total),
        # Without the input embedding: looking a row up computes nothing.
        "active_parameters": float(active) if moe else None,
        "layers": layers,
        "hidden_size": hidden,
        "attention_heads": heads,
        "kv_heads": heads if family.latent else reader.count("num_key_value_heads", heads),
        "head_dim": head_dim,
        "attention": "mla" if family.latent else "gqa",
        "kv_lora_rank": reader.count("kv_lora_rank") if family.latent else None,
        "qk_rope_head_dim": reader.count("qk_rope_head_dim") if family.latent else None,
        "sliding_window": window or None,
        "sliding_window_layers": window_layers if window else None,
        "moe": moe,
    }


def _latent_attention(reader: Reader, heads: int, head_dim: int) -> int:
    """Return the parameters of one MLA layer; without a query rank, queries come straight from the input."""
    hidden, rank = reader.count("hidden_size"), reader.count("kv_lora_rank")
    query_rank = reader.count("q_lora_rank", 0)
    queries = query_rank * (hidden + heads * head_dim) if query_rank else hidden * heads * head_dim
    value_dim = reader.count("v_head_dim")
    keys = hidden * (rank + reader.count("qk_rope_head_dim"))
    up = rank * heads * (reader.count("qk_nope_head_dim") + value_dim)
    return queries + keys + up + heads * value_dim * hidden


def _quantization(reader: Reader) -> str | None:
    """Return how the weights are stored, as `architecture.quantization` names it."""
    raw = reader.values.get("quantization_config")
    if not isinstance(raw, dict):
        return None
    config = cast("Values", raw)
    method, bits, kind = str(config.get("quant_method")), config.get("bits", config.get("w_bit")), "int"
    groups = config.get("config_groups")
    if method == "compressed-tensors" and isinstance(groups, dict):
        weights = _first_weights(cast("Values", groups))
        bits, kind = weights.get("num_bits"), str(weights.get("type", "int"))
    if method in {"fp8", "fbgemm_fp8"}:
        return "fp8"
    if method == "mxfp4":
        return "mxfp4"
    stored = {"float 8": "fp8", "int 8": "int8", "int 4": "int4"}.get(f"{kind} {bits}")
    if method in {"awq", "gptq", "compressed-tensors"} and stored:
        return stored
    raise NotReadable(
        f"has the quantization_config {method} with {bits} bits, which is not known; "
        "write `quantization` beside config_json"
    )


def _first_weights(groups: Values) -> Values:
    for group in groups.values():
        weights = cast("Values", group).get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            return cast("Values", weights)
    return {}
