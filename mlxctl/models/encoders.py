"""Encoders, whose tokens see those behind them, too: which kinds are computed here, and what their code takes
for granted.

The classes of the packages read only a part of a configuration and leave the rest as most models have it. A
model that differs there is refused, because its vectors would be wrong without anybody noticing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.errors import BrokenModel
from mlxctl.ir import EncoderKind
from mlxctl.models.names import spoken_name
from mlxctl.models.runtimes import find_runtimes
from mlxctl.models.text_config import whole_number

BERT_KINDS: Mapping[str, EncoderKind] = {
    "bert": "bert",
    "camembert": "xlm_roberta",
    "modernbert": "modernbert",
    "roberta": "xlm_roberta",
    "xlm-roberta": "xlm_roberta",
    "xlm_roberta": "xlm_roberta",
}
"""The encoder that computes a `model_type`. RoBERTa and its kin differ in their tokenizers only."""

_RUNTIMES: Mapping[EncoderKind, str] = {
    "bert": "mlx-vlm", "xlm_roberta": "mlx-vlm", "modernbert": "mlx-vlm", "gemma3_text": "mlx-lm"
}  # fmt: skip
# Field and value, by encoder: what its code computes.
_BERT = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_TAKEN_FOR_GRANTED: Mapping[EncoderKind, Mapping[str, Any]] = {
    "bert": _BERT,
    "xlm_roberta": _BERT,
    "modernbert": {"hidden_activation": "gelu"},
    "gemma3_text": {"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False},
}
# Where the two kinds that have windows say how far their rotations go, and what counts when they do not say
# it.
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


def looks_both_ways(config: Mapping[str, Any]) -> bool:
    """Whether the configuration of a text model says that a token sees those behind it."""
    return config.get("use_bidirectional_attention") is True or config.get("is_causal") is False


def is_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the configuration is of a model whose tokens see those behind them, computed here or not."""
    return config.get("model_type") in BERT_KINDS or looks_both_ways(config)


def find_encoder(path: Path, config: Mapping[str, Any]) -> EncoderKind | None:
    """Return what computes the model in `path`, None for one that reads onwards only.

    Raises BrokenModel for what nothing does.
    """
    model_type = str(config.get("model_type"))
    if model_type in BERT_KINDS:
        kind = BERT_KINDS[model_type]
    elif not looks_both_ways(config):
        return None
    elif model_type == "gemma3_text":
        kind = "gemma3_text"
    else:
        raise _refusal(
            path,
            f"lets a token see those behind it, which is not computed here for model_type {model_type!r}",
        )
    _check_runtime(path, kind)
    for field, usual in _TAKEN_FOR_GRANTED[kind].items():
        if config.get(field, usual) != usual:
            raise _refusal(
                path, f"has {field} {config[field]!r} (config.json); only {usual!r} is computed here"
            )
    _check_layers(path, kind, config)
    return kind


def longest_text(kind: EncoderKind, config: Mapping[str, Any]) -> int | None:
    """Return how many tokens have a place in the table of positions, None where there is no such table."""
    num_positions = whole_number(config, "max_position_embeddings")
    if num_positions is None or kind in ("modernbert", "gemma3_text"):
        return None
    if kind == "bert":
        return num_positions
    # RoBERTa counts positions from behind that of the padding token.
    padding_id = whole_number(config, "pad_token_id")
    return num_positions - 1 - (_USUAL_PADDING_ID if padding_id is None else padding_id)


def _check_runtime(path: Path, kind: EncoderKind) -> None:
    runtimes, needed = find_runtimes(kind), _RUNTIMES[kind]
    if runtimes is not None and needed not in runtimes:
        raise _refusal(
            path, f"is computed by {needed}, which is not installed: pip install 'mlxctl[encoders]'"
        )


def _check_layers(path: Path, kind: EncoderKind, config: Mapping[str, Any]) -> None:
    """Refuse layers in another order, and rotations by another base, than the code reads from the
    configuration.
    """
    if kind not in _ROTATIONS:
        return
    layers = config.get("layer_types")
    if isinstance(layers, list) and layers != _usual_layers(kind, config, len(layers)):
        raise _refusal(path, "has layers in an order that is not computed here (layer_types in config.json)")
    rotations = config.get("rope_parameters")
    for layer, (field, usual) in _ROTATIONS[kind].items():
        rotation = rotations.get(layer) if isinstance(rotations, Mapping) else None
        if not isinstance(rotation, Mapping):
            continue
        if rotation.get("rope_type", "default") != "default" or rotation.get(
            "rope_theta", usual
        ) != config.get(field, usual):
            raise _refusal(path, f"has rope_parameters for {layer} that are not computed here (config.json)")


def _usual_layers(kind: EncoderKind, config: Mapping[str, Any], num_layers: int) -> list[str]:
    if kind == "modernbert":
        every = whole_number(config, "global_attn_every_n_layers") or 3
        return ["sliding_attention" if index % every else "full_attention" for index in range(num_layers)]
    every = whole_number(config, "sliding_window_pattern") or 6
    return ["sliding_attention" if (index + 1) % every else "full_attention" for index in range(num_layers)]


def _refusal(path: Path, what: str) -> BrokenModel:
    return BrokenModel(path, f"embedding model {spoken_name(path)!r} {what}")
