"""GGUF files of model directories, as llama.cpp's converter writes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, TokenType

_ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma": gguf.MODEL_ARCH.GEMMA,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}


def write_gguf(
    model: Path,
    path: Path,
    *,
    matrices: str = "F32",
    pre: str = "gpt-2",
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    part_tensors: int = 0,
) -> Path:
    """Write the model's GGUF file, and return its path.

    With `part_tensors` it is split into files of so many tensors.
    Matrices have the type `matrices`, or Q8_0 where rows do not fit into its blocks. `metadata` and
    `tensors` are added, or replace those of the model; None removes one.
    """
    config = json.loads((model / "config.json").read_text())
    arch = _ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch], split_max_tensors=part_tensors)
    entries = {
        **_hyperparameters(config, gguf.MODEL_ARCH_NAMES[arch]),
        **_tokenizer(model, pre),
        **(metadata or {}),
    }
    for key, value in entries.items():
        add_value(writer, key, value)
    weights: dict[str, Any] = {}
    for file in model.glob("*.safetensors"):
        weights |= mx.load(str(file))
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    arrays = {}
    for name, weight in weights.items():
        array = _changed(name, np.array(weight.astype(mx.float32)), config)
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new_name, name
        arrays[new_name] = array
    for name, array in {**arrays, **(tensors or {})}.items():
        if array is not None:
            kind = GGMLQuantizationType[matrices] if array.ndim > 1 else GGMLQuantizationType.F32
            if array.shape[-1] % GGML_QUANT_SIZES[kind][0]:
                kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Add a value of metadata; None adds nothing."""
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)


def _hyperparameters(config: Mapping[str, Any], arch: str) -> dict[str, Any]:
    values = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "attention.key_length": config.get("head_dim"),
        "attention.value_length": config.get("head_dim"),
        "attention.sliding_window": config.get("sliding_window"),
        "attention.sliding_window_pattern": config.get("sliding_window_pattern"),
        "rope.freq_base": float(config["rope_theta"]),
        "vocab_size": config["vocab_size"],
    }
    return {"general.name": "Test", **{f"{arch}.{key}": value for key, value in values.items()}}


def _tokenizer(model: Path, pre: str) -> dict[str, Any]:
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    vocabulary = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    vocabulary |= {number: token["content"] for number, token in added.items()}
    kinds = {
        number: TokenType.CONTROL
        if token["special"] or token["content"].startswith("<|")
        else TokenType.USER_DEFINED
        for number, token in added.items()
    }
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in tokenizer["model"]["merges"]]
    special = json.loads((model / "tokenizer_config.json").read_text())
    ids = {token: number for number, token in vocabulary.items()}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [vocabulary[number] for number in range(len(vocabulary))],
        "tokenizer.ggml.token_type": [
            int(kinds.get(number, TokenType.NORMAL)) for number in range(len(vocabulary))
        ],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": ids.get(special.get("bos_token")),
        "tokenizer.ggml.eos_token_id": ids.get(special.get("eos_token")),
        "tokenizer.chat_template": (model / "chat_template.jinja").read_text(),
    }


def _changed(name: str, array: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """Return a weight as converters store it."""
    if config["model_type"] in ("llama", "mistral"):
        for part, key in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:
                heads = array.reshape(config[key], 2, array.shape[0] // config[key] // 2, *array.shape[1:])
                return heads.swapaxes(1, 2).reshape(array.shape)
    if config["model_type"].startswith("gemma") and name.endswith("norm.weight"):
        return array + 1
    return array


def variant_of(model: Path, directory: Path, changes: dict[str, Any]) -> Path:
    """Write a model with changed fields, and random weights."""
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    directory.mkdir()
    config = {**json.loads((model / "config.json").read_text()), **changes}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (directory / name).write_bytes((model / name).read_bytes())
    (directory / "config.json").write_text(json.dumps(config))
    model_class, args_class = _get_classes(config)
    network = model_class(args_class.from_dict(config))
    weights = {
        name: mx.random.normal(weight.shape, key=mx.random.key(number)) * 0.2
        for number, (name, weight) in enumerate(tree_flatten(network.parameters()))
        if not (name == "lm_head.weight" and config["tie_word_embeddings"])
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return directory
