"""A Hugging Face config.json fills the architecture, or says in one finding why it cannot."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpd.spec.config_json import read_config_json
from dpd.spec.model import Architecture
from dpd.spec.model_family import FAMILIES, NotReadable


def gqa(layers: int, hidden: int, heads: int, kv_heads: int, inner: int, vocab: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }


LLAMA_70B = {"model_type": "llama", **gqa(80, 8192, 64, 8, 28672, 128256)}
MISTRAL_7B = {"model_type": "mistral", "sliding_window": 4096, **gqa(32, 4096, 32, 8, 14336, 32000)}
QWEN3_32B = {"model_type": "qwen3", "head_dim": 128, **gqa(64, 5120, 64, 8, 25600, 151936)}
QWEN3_235B = {
    "model_type": "qwen3_moe",
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1536,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    **gqa(94, 4096, 64, 4, 12288, 151936),
}
GPT_OSS_120B = {
    "model_type": "gpt_oss",
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    **gqa(36, 2880, 64, 8, 2880, 201088),
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    **gqa(61, 7168, 128, 128, 18432, 129280),
}
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2",
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "first_k_dense_replace": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    **gqa(27, 2048, 16, 16, 10944, 102400),
}
SCOUT_TEXT = {
    "model_type": "llama4_text",
    "head_dim": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
    "intermediate_size_mlp": 16384,
    "attention_chunk_size": 8192,
    "no_rope_layers": [1, 1, 1, 0] * 12,
    **gqa(48, 5120, 40, 8, 8192, 202048),
}
SCOUT = {"model_type": "llama4", "text_config": SCOUT_TEXT, "vision_config": {"hidden_size": 1408}}
MAVERICK = {
    "model_type": "llama4",
    "text_config": SCOUT_TEXT | {"num_local_experts": 128, "interleave_moe_layer_step": 2},
}


def shape(tmp_path: Path, config: dict[str, Any], **given: object) -> Architecture:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return Architecture.model_validate(read_config_json(path, frozenset(given)) | given)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        pytest.param(LLAMA_70B, 70.55e9, id="Llama-3.3-70B"),
        pytest.param(
            {"model_type": "llama", **gqa(126, 16384, 128, 8, 53248, 128256)}, 405.9e9, id="Llama-3.1-405B"
        ),
        pytest.param(
            {"model_type": "qwen2", **gqa(80, 8192, 64, 8, 29568, 152064)}, 72.7e9, id="Qwen2.5-72B"
        ),
        pytest.param(MISTRAL_7B, 7.24e9, id="Mistral-7B"),
        pytest.param(QWEN3_32B, 32.8e9, id="Qwen3-32B"),
        pytest.param(QWEN3_235B, 235e9, id="Qwen3-235B-A22B"),
        pytest.param(
            QWEN3_235B | {"mlp_only_layers": [0, 1, 93]},
            235.1e9 - 3 * (128 * 3 * 4096 * 1536 - 3 * 4096 * 12288),
            id="Qwen3-235B with three plain layers",
        ),
        pytest.param(GPT_OSS_120B, 116.8e9, id="gpt-oss-120b"),
        pytest.param(DEEPSEEK_V3, 671e9, id="DeepSeek-V3"),
        pytest.param(DEEPSEEK_V2_LITE, 15.7e9, id="DeepSeek-V2-Lite"),
        pytest.param(SCOUT, 107.8e9, id="Llama-4-Scout, text part"),
        pytest.param(MAVERICK, 400e9, id="Llama-4-Maverick, text part"),
    ],
)
def test_parameters_agree_with_published_counts(
    tmp_path: Path, config: dict[str, Any], parameters: float
) -> None:
    assert shape(tmp_path, config).parameters == pytest.approx(parameters, rel=0.01)


@pytest.mark.parametrize(
    ("config", "active", "digits"),
    [
        pytest.param(GPT_OSS_120B, 5.13e9, 0.01e9, id="gpt-oss-120b"),
        pytest.param(DEEPSEEK_V3, 37e9, 0.5e9, id="DeepSeek-V3"),
        pytest.param(QWEN3_235B, 22e9, 0.5e9, id="Qwen3-235B-A22B"),
        # Meta counts the input embedding, in which a token only looks up one row.
        pytest.param(SCOUT, 17e9 - 202048 * 5120, 0.5e9, id="Llama-4-Scout"),
    ],
)
def test_active_parameters_agree_to_the_digits_published(
    tmp_path: Path, config: dict[str, Any], active: float, digits: float
) -> None:
    found = shape(tmp_path, config)
    assert found.moe
    assert found.active_parameters == pytest.approx(active, abs=digits)


def test_a_dense_model_has_the_shape_that_its_file_states(tmp_path: Path) -> None:
    found = shape(tmp_path, LLAMA_70B)
    assert (found.layers, found.hidden_size, found.attention_heads, found.kv_heads) == (80, 8192, 64, 8)
    assert (found.head_dim, found.dtype, found.quantization, found.moe) == (128, "bfloat16", None, False)
    assert (found.sliding_window, found.active_parameters, found.attention) == (None, None, "gqa")


def test_a_head_dimension_of_its_own_is_read(tmp_path: Path) -> None:
    assert shape(tmp_path, QWEN3_32B).head_dim == 128, "not 5120 / 64"


def test_latent_attention_keeps_rank_and_rotary_part(tmp_path: Path) -> None:
    found = shape(tmp_path, DEEPSEEK_V3)
    assert (found.attention, found.kv_lora_rank, found.qk_rope_head_dim) == ("mla", 512, 64)


@pytest.mark.parametrize(
    ("config", "window", "layers"),
    [
        pytest.param(MISTRAL_7B, 4096, 32, id="Mistral-7B-v0.1: all"),
        pytest.param(MISTRAL_7B | {"sliding_window": None}, None, 0, id="Mistral-7B-v0.3: none"),
        pytest.param(GPT_OSS_120B, 128, 18, id="gpt-oss: every other"),
        pytest.param(GPT_OSS_120B | {"layer_types": None}, 128, 18, id="gpt-oss: by default"),
        pytest.param(SCOUT, 8192, 36, id="Llama-4: all but each fourth"),
        pytest.param(QWEN3_32B | {"sliding_window": 4096}, None, 0, id="Qwen: switched off"),
        pytest.param(
            QWEN3_32B | {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 60},
            4096,
            4,
            id="Qwen: above the lower layers",
        ),
    ],
)
def test_sliding_windows(tmp_path: Path, config: dict[str, Any], window: int | None, layers: int) -> None:
    found = shape(tmp_path, config)
    assert (found.sliding_window, found.sliding_window_layers) == (window, layers)


@pytest.mark.parametrize(
    ("quantization", "stored"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "int4",
        ),
    ],
    ids=str,
)
def test_quantised_weights(tmp_path: Path, quantization: dict[str, Any], stored: str) -> None:
    assert shape(tmp_path, LLAMA_70B | {"quantization_config": quantization}).quantization == stored


def test_quantisation_of_the_whole_counts_for_its_text_part(tmp_path: Path) -> None:
    assert shape(tmp_path, SCOUT | {"quantization_config": {"quant_method": "fp8"}}).quantization == "fp8"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "must hold an object"),
        ("{", "is not valid JSON: Expecting"),
        ("[" * 100_000, "is nested too deeply"),
        ("\xff", "is not valid JSON"),
        (json.dumps({"model_type": "mamba"}), "has model_type `mamba`; known are llama, mistral, qwen2"),
        (json.dumps({}), "has model_type ``"),
        (
            json.dumps({key: value for key, value in LLAMA_70B.items() if key != "intermediate_size"}),
            "lacks `intermediate_size`, which a llama model has",
        ),
        (
            json.dumps(LLAMA_70B | {"num_hidden_layers": "80"}),
            "`num_hidden_layers` wants a whole number, got '80'",
        ),
        (json.dumps(LLAMA_70B | {"num_attention_heads": 0}), "has no layers, no attention heads"),
        (
            json.dumps(LLAMA_70B | {"quantization_config": {"quant_method": "aqlm", "bits": 2}}),
            "quantization_config aqlm with 2 bits, which is not known; write `quantization` beside",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(NotReadable) as raised:
        read_config_json(path)
    assert says in str(raised.value)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.text(max_size=5), st.lists(st.lists(st.integers()))
)


@pytest.mark.parametrize(
    "config",
    [LLAMA_70B, QWEN3_235B, GPT_OSS_120B, DEEPSEEK_V3, SCOUT_TEXT],
    ids=lambda config: config["model_type"],
)
@given(st.data())
def test_any_value_in_any_key_is_read_or_refused_in_words(
    config: dict[str, Any], data: st.DataObject
) -> None:
    changed = config | {key: data.draw(JUNK) for key in data.draw(st.sets(st.sampled_from(sorted(config))))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(changed))
        try:
            found = read_config_json(path)
        except NotReadable:
            return
    assert found["layers"] == changed["num_hidden_layers"]


def test_an_unknown_quantisation_may_be_named_beside(tmp_path: Path) -> None:
    odd = LLAMA_70B | {"quantization_config": {"quant_method": "aqlm", "bits": 2}}
    assert shape(tmp_path, odd, quantization="int4").quantization == "int4"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_names_what_it_misses(tmp_path: Path, name: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": name}))
    with pytest.raises(NotReadable, match="lacks `num_hidden_layers`"):
        read_config_json(path)
