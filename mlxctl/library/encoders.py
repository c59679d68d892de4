"""Encoders (bidirectional attention): supported kinds, and what their code assumes.

The packages' classes read only a part of a configuration and use defaults for the rest. A model that differs
there is rejected, because wrong embeddings would go unnoticed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import EncoderKind
from mlxctl.library.files import embedding_error
from mlxctl.library.runtimes import find_runtimes
from mlxctl.library.text_config import whole_number

ENCODER_KINDS: Mapping[str, EncoderKind] = {
    "bert": "bert",
    "camembert": "xlm_roberta",
    "llama_bidirec": "llama_bidirec",
    "modernbert": "modernbert",
    "roberta": "xlm_roberta",
    "xlm-roberta": "xlm_roberta",
    "xlm_roberta": "xlm_roberta",
}
"""The encoder class for a `model_type`; RoBERTa and relatives differ in tokenizers only."""

_RUNTIMES: Mapping[EncoderKind, str] = {
    "bert": "mlx-vlm", "xlm_roberta": "mlx-vlm", "modernbert": "mlx-vlm", "gemma3_text": "mlx-lm",
    "llama_bidirec": "mlx-embeddings",
}  # fmt: skip
_EXTRAS = {"mlx-embeddings": "embeddings-extra"}
# Fields by encoder, with the only value that its code supports.
_BERT = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_TAKEN_FOR_GRANTED: Mapping[EncoderKind, Mapping[str, Any]] = {
    "bert": _BERT,
    "xlm_roberta": _BERT,
    "modernbert": {"hidden_activation": "gelu"},
    "gemma3_text": {"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False},
    "llama_bidirec": {"hidden_act": "silu"},
}
# RoPE bases of the two kinds with windows: field and default.
_ROTATIONS: Mapping[EncoderKind, Mapping[str, tuple[str, float]]] = {
    "modernbert": {
        "full_attention": ("global_rope_theta", 160_000.0),
        "sliding_attention": ("local_rope_theta", 10_000.0),
    },
    "gemma3_text": {
        "full_attention": ("rope_theta", 1_000_000.0),
        "sliding_attention": ("rope_local_base_freq", 10_000.0),
    },
}
_USUAL_PADDING_ID = 1


def has_bidirectional_attention(config: Mapping[str, Any]) -> bool:
    """Whether the configuration of a text model has bidirectional attention."""
    return config.get("use_bidirectional_attention") is True or config.get("is_causal") is False


def is_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the configuration has bidirectional attention, supported or not."""
    return config.get("model_type") in ENCODER_KINDS or has_bidirectional_attention(config)


def find_encoder(path: Path, config: Mapping[str, Any]) -> EncoderKind | None:
    """Return the encoder of the model in `path`.

    None for a causal model. Raises BrokenModel for an unsupported encoder.
    """
    model_type = str(config.get("model_type"))
    if model_type in ENCODER_KINDS:
        kind = ENCODER_KINDS[model_type]
    elif not has_bidirectional_attention(config):
        return None
    elif model_type == "gemma3_text":
        kind = "gemma3_text"
    else:
        raise embedding_error(
            path,
            f"has bidirectional attention, which is not supported for model_type {model_type!r}",
        )
    _check_runtime(path, kind)
    for field, usual in _TAKEN_FOR_GRANTED[kind].items():
        if config.get(field, usual) != usual:
            raise embedding_error(
                path, f"has {field} {config[field]!r} (config.json); only {usual!r} is supported"
            )
    _check_layers(path, kind, config)
    return kind


def max_positions(kind: EncoderKind, config: Mapping[str, Any]) -> int | None:
    """Return the number of positions in the position table.

    None without a table.
    """
    num_positions = whole_number(config, "max_position_embeddings")
    if num_positions is None or kind in ("modernbert", "gemma3_text", "llama_bidirec"):
        return None
    if kind == "bert":
        return num_positions
    # RoBERTa's positions start after that of the padding token.
    padding_id = whole_number(config, "pad_token_id")
    return num_positions - 1 - (_USUAL_PADDING_ID if padding_id is None else padding_id)


def _check_runtime(path: Path, kind: EncoderKind) -> None:
    runtimes, needed = find_runtimes(kind), _RUNTIMES[kind]
    if runtimes is not None and needed not in runtimes:
        extra = _EXTRAS.get(needed, "encoders")
        raise embedding_error(path, f"needs {needed}, which is not installed: pip install 'mlxctl[{extra}]'")


def _check_layers(path: Path, kind: EncoderKind, config: Mapping[str, Any]) -> None:
    """Raise BrokenModel for unsupported layer types and RoPE bases."""
    layers = config.get("layer_types")
    if kind == "llama_bidirec" and isinstance(layers, list) and set(layers) - {"full_attention"}:
        raise embedding_error(
            path, "has layers with a window (layer_types in config.json), which is not supported"
        )
    if kind not in _ROTATIONS:
        return
    if isinstance(layers, list) and layers != _usual_layers(kind, config, len(layers)):
        raise embedding_error(path, "has an unsupported order of layers (layer_types in config.json)")
    rotations = config.get("rope_parameters")
    for layer, (field, usual) in _ROTATIONS[kind].items():
        rotation = rotations.get(layer) if isinstance(rotations, Mapping) else None
        if not isinstance(rotation, Mapping):
            continue
        if rotation.get("rope_type", "default") != "default" or rotation.get(
            "rope_theta", usual
        ) != config.get(field, usual):
            raise embedding_error(path, f"has unsupported rope_parameters for {layer} (config.json)")


def _usual_layers(kind: EncoderKind, config: Mapping[str, Any], num_layers: int) -> list[str]:
    if kind == "modernbert":
        every = whole_number(config, "global_attn_every_n_layers") or 3
        return ["sliding_attention" if index % every else "full_attention" for index in range(num_layers)]
    every = whole_number(config, "sliding_window_pattern") or 6
    return ["sliding_attention" if (index + 1) % every else "full_attention" for index in range(num_layers)]
