"""Write a tiny Llama whose bytes are the same on every machine.

Run by the engines' Python, which has numpy and tokenizers: `python tiny_model.py SHAPE_JSON FOLDER`. The
weights are random, so the text means nothing; it is varied, never ends by itself, and depends on every token
of the prompt, so that a wrong KV cache shows.
"""

# The packages of the engines' environment are not in that of the core.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 4096
SEED = 0
SHARPNESS = 1.5
"""Scale of attention's weights: above 1 one early letter changes the answer within 20 tokens; much above,
rounding does too."""
BEGIN, END, USER, ASSISTANT, SYSTEM = SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
)
CHAT_TEMPLATE = (
    "{{ '" + BEGIN + "' }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)
# Common words, and words of this field: English takes two to four characters a token, where the router's
# estimate assumes four.
_WORDS = """
the of and to in is that it for was on are as with his they at be this have from or one had by word but not
what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could
people my than first water been call who oil its now find long down day did get come made may part over new
sound take only little work know place year live me back give most very after thing our just name good
sentence man think say great where help through much before line right too mean old any same tell boy follow
came want show also around form three small set put end does another well large must big even such because
turn here why ask went read need land different home us move try kind hand picture again change off play
spell air away animal house point page letter mother answer found study still learn should world high every
near add food between own below country plant last school father keep tree never start city earth eye light
thought head under story saw left few while along might close something seem next hard open example begin
life always those both paper together got group often run important until children side feet car mile night
walk white sea began grow took river four carry state once book hear stop without second later miss idea
enough eat face watch far request prompt token model cache prefill decode worker router server latency
memory batch layer attention weight transfer stream question context length buffer block cluster node
network machine process report cost measure result error value system service user key data text code file
test
"""
STEMS = _WORDS.split()
ENDINGS = ("", "", "", "s", "ed", "ing", "er", "ly", "ness", "able", "ment", "ation")


def corpus() -> Iterator[str]:
    """Yield sentences to train the tokenizer on, from a generator that Python keeps stable."""
    pick = random.Random(SEED)  # noqa: S311 - no secret
    for _ in range(12_000):
        # The smaller of two draws favours the front of the list, as language favours common words.
        words = [
            STEMS[int(len(STEMS) * min(pick.random(), pick.random()))]
            + ENDINGS[int(len(ENDINGS) * pick.random())]
            for _ in range(4 + int(12 * pick.random()))
        ]
        yield f"{' '.join(words).capitalize()}, {int(10_000 * pick.random())}. "


def write_tokenizer(folder: Path, max_model_len: int) -> None:
    """Train a byte-level BPE of exactly `VOCABULARY` tokens and write it with its chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}")
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BEGIN,
            "eos_token": END,
            "model_max_length": max_model_len,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def write_config(folder: Path, shape: dict[str, Any]) -> None:
    """Write `config.json` and `generation_config.json`."""
    tokens = {"bos_token_id": SPECIAL.index(BEGIN), "eos_token_id": SPECIAL.index(END)}
    _write_json(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": VOCABULARY,
            "hidden_size": shape["hidden_size"],
            "intermediate_size": 2 * shape["hidden_size"],
            "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["attention_heads"],
            "num_key_value_heads": shape["kv_heads"],
            "head_dim": shape["head_dim"],
            "max_position_embeddings": shape["max_model_len"],
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "dtype": shape["dtype"],
            **tokens,
        },
    )
    _write_json(folder / "generation_config.json", tokens)


def write_weights(folder: Path, shape: dict[str, Any]) -> None:
    """Write weights drawn evenly around zero: unlike normal ones, they need no function that rounds."""
    import numpy as np

    generator = np.random.Generator(np.random.PCG64(SEED))

    def tensor(gain: float, *size: int) -> Any:
        # An even distribution of variance gain^2 / inputs keeps activations at the same scale.
        width = np.float32(gain * (3.0 / size[-1]) ** 0.5)
        return (generator.random(size, dtype=np.float32) * 2 - 1) * width

    def ones() -> Any:
        return np.ones(hidden, dtype=np.float32)

    hidden, head = shape["hidden_size"], shape["head_dim"]
    queries, keys = shape["attention_heads"] * head, shape["kv_heads"] * head
    tensors: dict[str, Any] = {}
    tensors["model.embed_tokens.weight"] = tensor(hidden**0.5, VOCABULARY, hidden)
    for number in range(shape["layers"]):
        layer = f"model.layers.{number}"
        tensors[f"{layer}.input_layernorm.weight"] = ones()
        tensors[f"{layer}.self_attn.q_proj.weight"] = tensor(SHARPNESS, queries, hidden)
        tensors[f"{layer}.self_attn.k_proj.weight"] = tensor(SHARPNESS, keys, hidden)
        tensors[f"{layer}.self_attn.v_proj.weight"] = tensor(SHARPNESS, keys, hidden)
        tensors[f"{layer}.self_attn.o_proj.weight"] = tensor(SHARPNESS, hidden, queries)
        tensors[f"{layer}.post_attention_layernorm.weight"] = ones()
        tensors[f"{layer}.mlp.gate_proj.weight"] = tensor(1.0, 2 * hidden, hidden)
        tensors[f"{layer}.mlp.up_proj.weight"] = tensor(1.0, 2 * hidden, hidden)
        tensors[f"{layer}.mlp.down_proj.weight"] = tensor(1.0, hidden, 2 * hidden)
    tensors["model.norm.weight"] = ones()
    tensors["lm_head.weight"] = tensor(1.0, VOCABULARY, hidden)
    # A score of zero never wins against thousands of random ones: only `max_tokens` ends an answer.
    tensors["lm_head.weight"][: len(SPECIAL)] = 0
    write_safetensors(folder / "model.safetensors", tensors)


def write_safetensors(path: Path, tensors: dict[str, Any]) -> None:
    """Write float32 arrays as bfloat16: the length of a JSON header, the header, the data."""
    import numpy as np

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, values in tensors.items():
        # bfloat16 is the upper half of a float32.
        part = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        offsets = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": offsets}
        data += part
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write the model of the given shape into the given folder."""
    shape, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    write_config(folder, shape)
    write_tokenizer(folder, shape["max_model_len"])
    write_weights(folder, shape)


if __name__ == "__main__":
    main()
