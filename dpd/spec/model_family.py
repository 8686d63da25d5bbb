"""How each family of models counts its layers, under the keys of its Hugging Face ``config.json``.

Keys and defaults are those of transformers 4.57 (``configuration_<family>.py``). Matrices alone count,
since biases and norms stay under 0.1 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from dpd.spec.model import LARGEST

Values = dict[str, object]


class NotReadable(Exception):
    """Say in one sentence why a config.json gives no architecture."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Give typed access to one level of a config.json; a missing or wrong key raises NotReadable."""

    values: Values

    def count(self, key: str, default: int | None = None) -> int:
        """Return a whole number of 0 or more; null counts as absent."""
        value = self.values.get(key)
        value = default if value is None else value
        if value is None:
            raise NotReadable(f"lacks `{key}`, which a {self.values.get('model_type')} model has")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise NotReadable(f"`{key}` wants a whole number, got {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """Return a switch, off where it is absent."""
        return self.values.get(key) is True

    def items(self, key: str) -> list[object]:
        """Return a list, empty where it is absent."""
        value = self.values.get(key)
        return cast("list[object]", value) if isinstance(value, list) else []

    def text(self, *keys: str) -> str:
        """Return the first key that holds text, empty where none does."""
        found = (self.values.get(key) for key in keys)
        return next((value for value in found if isinstance(value, str)), "")


@dataclass(frozen=True, slots=True)
class Layers:
    """Count the parameters of the feed-forward part: plain layers, and layers with experts."""

    dense: int
    dense_parameters: int
    sparse: int = 0
    experts: int = 0
    active_experts: int = 0
    expert_parameters: int = 0
    shared_parameters: int = 0
    """Shared experts and the router, per layer."""

    def parameters(self, *, active: bool) -> int:
        """Return the parameters that exist, or those that one token computes with."""
        experts = (self.active_experts if active else self.experts) * self.expert_parameters
        return self.dense * self.dense_parameters + self.sparse * (experts + self.shared_parameters)


def _gated(reader: Reader, inner: int) -> int:
    """Return the parameters of a feed-forward block with gate, up and down matrices."""
    return 3 * reader.count("hidden_size") * inner


def _dense(reader: Reader) -> Layers:
    return Layers(reader.count("num_hidden_layers"), _gated(reader, reader.count("intermediate_size")))


def _experts(reader: Reader, count_key: str, inner_key: str, dense: int = 0, shared_inner: int = 0) -> Layers:
    """Return layers whose experts are ``inner_key`` wide, the first ``dense`` of them without experts."""
    experts = reader.count(count_key)
    router = reader.count("hidden_size") * experts
    return Layers(
        dense=dense,
        dense_parameters=_gated(reader, reader.count("intermediate_size")) if dense else 0,
        sparse=reader.count("num_hidden_layers") - dense,
        experts=experts,
        active_experts=reader.count("num_experts_per_tok"),
        expert_parameters=_gated(reader, reader.count(inner_key)),
        shared_parameters=_gated(reader, shared_inner) + router,
    )


def _qwen3_moe(reader: Reader) -> Layers:
    step, layers = max(1, reader.count("decoder_sparse_step", 1)), reader.count("num_hidden_layers")
    plain = {layer for layer in reader.items("mlp_only_layers") if isinstance(layer, int)}
    sparse = layers // step - sum(1 for layer in plain if 0 <= layer < layers and (layer + 1) % step == 0)
    return _experts(reader, "num_experts", "moe_intermediate_size", layers - sparse)


def _deepseek(reader: Reader) -> Layers:
    if reader.values.get("n_routed_experts") is None:
        return _dense(reader)
    shared = reader.count("n_shared_experts", 0) * reader.count("moe_intermediate_size")
    dense = reader.count("first_k_dense_replace", 0)
    return _experts(reader, "n_routed_experts", "moe_intermediate_size", dense, shared)


def _llama4(reader: Reader) -> Layers:
    layers, step = reader.count("num_hidden_layers"), max(1, reader.count("interleave_moe_layer_step", 1))
    dense = layers - layers // step
    found = _experts(reader, "num_local_experts", "intermediate_size", 0, reader.count("intermediate_size"))
    dense_parameters = _gated(reader, reader.count("intermediate_size_mlp")) if dense else 0
    return replace(found, dense=dense, dense_parameters=dense_parameters, sparse=layers - dense)


def _gpt_oss(reader: Reader) -> Layers:
    return _experts(reader, "num_local_experts", "intermediate_size")


def _no_window(_: Reader) -> tuple[int, int]:
    return 0, 0


def _window_in_every_layer(reader: Reader) -> tuple[int, int]:
    return reader.count("sliding_window", 0), reader.count("num_hidden_layers")


def _window_above(reader: Reader) -> tuple[int, int]:
    """Return Qwen's window, which is off unless switched on and spares the lower layers."""
    if not reader.flag("use_sliding_window"):
        return 0, 0
    layers = reader.count("num_hidden_layers")
    return reader.count("sliding_window", 4096), max(0, layers - reader.count("max_window_layers", layers))


def _window_in_every_other_layer(reader: Reader) -> tuple[int, int]:
    kinds = reader.items("layer_types")
    layers = reader.count("num_hidden_layers")
    sliding = kinds.count("sliding_attention") if kinds else (layers + 1) // 2
    return reader.count("sliding_window", 128), sliding


def _chunks(reader: Reader) -> tuple[int, int]:
    """Return Llama-4's chunked attention, in all layers but those without rotary embedding."""
    layers = reader.count("num_hidden_layers")
    rotary = reader.items("no_rope_layers")
    full = layers // max(1, reader.count("no_rope_layer_interval", 4))
    return reader.count("attention_chunk_size", 8192), sum(map(bool, rotary)) if rotary else layers - full


@dataclass(frozen=True, slots=True)
class Family:
    """Say how one ``model_type`` counts its feed-forward layers and its attention windows."""

    layers: Callable[[Reader], Layers]
    window: Callable[[Reader], tuple[int, int]] = _no_window
    latent: bool = False
    """True for multi-head latent attention."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family(_dense),
    "mistral": Family(_dense, _window_in_every_layer),
    "qwen2": Family(_dense, _window_above),
    "qwen3": Family(_dense, _window_above),
    "qwen3_moe": Family(_qwen3_moe, _window_above),
    "gpt_oss": Family(_gpt_oss, _window_in_every_other_layer),
    "deepseek_v2": Family(_deepseek, latent=True),
    "deepseek_v3": Family(_deepseek, latent=True),
    "llama4_text": Family(_llama4, _chunks),
}
