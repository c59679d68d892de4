"""Encoders computed by reference formulas in numpy and float64.

One text, no padding, no batch. Sources: the papers, and the modelling files of transformers for what these
leave open: the window of ModernBERT and EmbeddingGemma is half as wide on each side as the configuration
says, and includes its edge; Gemma's norms add one to their weights.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

Array = Any
_erf = np.vectorize(math.erf)


class Reference:
    """A model's directory, computed from its files alone."""

    def __init__(self, path: Path) -> None:
        self.config = json.loads((path / "config.json").read_text())
        self.weights = {
            re.sub(r"^(?:model|bert|roberta)\.", "", name): array.astype(np.float64)
            for name, array in load_file(path / "model.safetensors").items()
        }
        self.dense = [
            load_file(file)["linear.weight"] for file in sorted(path.glob("*_Dense/model.safetensors"))
        ]

    def states(self, token_ids: Sequence[int], segments: Sequence[int] | None = None) -> Array:
        """Return the states (tokens, width) of a text.

        `segments` are the segments of a pair's tokens.
        """
        self.segments = list(segments or [0] * len(token_ids))
        return _KINDS[self.config["model_type"]](self, list(token_ids))

    def score(self, token_ids: Sequence[int], segments: Sequence[int]) -> float:
        """Return a cross-encoder's logit of a pair."""
        kind = self.config["model_type"]
        states = self.states(token_ids, segments if kind == "bert" else None)
        if kind == "modernbert":
            hidden = _gelu(self.linear("head.dense", states.mean(axis=0)))
            return float(
                self.linear("classifier", self.norm("head.norm", hidden, self.config["norm_eps"]))[0]
            )
        dense, projection = (
            ("pooler.dense", "classifier") if kind == "bert" else ("classifier.dense", "classifier.out_proj")
        )
        return float(self.linear(projection, np.tanh(self.linear(dense, states[0])))[0])

    def linear(self, name: str, states: Array) -> Array:
        """Apply a layer, with its bias if it has one."""
        return states @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def norm(self, name: str, states: Array, epsilon: float) -> Array:
        """Apply a layer norm."""
        centred = states - states.mean(axis=-1, keepdims=True)
        sized = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return sized * self.weights[f"{name}.weight"] + self.weights.get(f"{name}.bias", 0.0)

    def root_norm(self, name: str, states: Array) -> Array:
        """Apply the RMS norm of Gemma: (1 + weight)."""
        sized = states / np.sqrt((states**2).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return sized * (1 + self.weights[f"{name}.weight"])


def _bert(model: Reference, token_ids: list[int]) -> Array:
    config, weights = model.config, model.weights
    epsilon, places = config["layer_norm_eps"], np.arange(len(token_ids))
    if config["model_type"] != "bert":
        # RoBERTa does not count padding, not even where a text names it.
        is_word = np.array(token_ids) != config["pad_token_id"]
        places = config["pad_token_id"] + np.cumsum(is_word) * is_word
    states = (
        weights["embeddings.word_embeddings.weight"][token_ids]
        + weights["embeddings.position_embeddings.weight"][places]
    )
    states = model.norm(
        "embeddings.LayerNorm",
        states + weights["embeddings.token_type_embeddings.weight"][model.segments],
        epsilon,
    )
    for layer in (f"encoder.layer.{index}" for index in range(config["num_hidden_layers"])):
        parts = (model.linear(f"{layer}.attention.self.{name}", states) for name in ("query", "key", "value"))
        seen = _attend(*(_heads(part, config["num_attention_heads"]) for part in parts))
        states = model.norm(
            f"{layer}.attention.output.LayerNorm",
            states + model.linear(f"{layer}.attention.output.dense", seen),
            epsilon,
        )
        wide = _gelu(model.linear(f"{layer}.intermediate.dense", states))
        states = model.norm(
            f"{layer}.output.LayerNorm", states + model.linear(f"{layer}.output.dense", wide), epsilon
        )
    return states


def _modernbert(model: Reference, token_ids: list[int]) -> Array:
    config, epsilon = model.config, model.config["norm_eps"]
    states = model.norm(
        "embeddings.norm", model.weights["embeddings.tok_embeddings.weight"][token_ids], epsilon
    )
    for index in range(config["num_hidden_layers"]):
        layer, attends_to_all = f"layers.{index}", index % config["global_attn_every_n_layers"] == 0
        base, reach = (
            (config["global_rope_theta"], None)
            if attends_to_all
            else (config["local_rope_theta"], config["local_attention"] // 2)
        )
        taken = model.norm(f"{layer}.attn_norm", states, epsilon) if index else states
        queries, keys, values = (
            _heads(part, config["num_attention_heads"])
            for part in np.split(model.linear(f"{layer}.attn.Wqkv", taken), 3, axis=-1)
        )
        seen = _attend(_rotated(queries, base), _rotated(keys, base), values, reach=reach)
        states = states + model.linear(f"{layer}.attn.Wo", seen)
        wide, gate = np.split(
            model.linear(f"{layer}.mlp.Wi", model.norm(f"{layer}.mlp_norm", states, epsilon)), 2, axis=-1
        )
        states = states + model.linear(f"{layer}.mlp.Wo", _gelu(wide) * gate)
    return model.norm("final_norm", states, epsilon)


def _gemma(model: Reference, token_ids: list[int]) -> Array:
    config = model.config
    states = model.weights["embed_tokens.weight"][token_ids] * config["hidden_size"] ** 0.5
    for index, kind in enumerate(config["layer_types"]):
        layer, attends_to_all = f"layers.{index}", kind == "full_attention"
        base, reach = (
            (config["rope_theta"], None)
            if attends_to_all
            else (config["rope_local_base_freq"], config["sliding_window"] // 2)
        )
        taken = model.root_norm(f"{layer}.input_layernorm", states)
        queries, keys, values = (
            _heads(model.linear(f"{layer}.self_attn.{name}_proj", taken), config[heads])
            for name, heads in (
                ("q", "num_attention_heads"),
                ("k", "num_key_value_heads"),
                ("v", "num_key_value_heads"),
            )
        )
        queries = _rotated(model.root_norm(f"{layer}.self_attn.q_norm", queries), base)
        keys = _rotated(model.root_norm(f"{layer}.self_attn.k_norm", keys), base)
        seen = _attend(queries, keys, values, scale=config["query_pre_attn_scalar"] ** -0.5, reach=reach)
        states = states + model.root_norm(
            f"{layer}.post_attention_layernorm", model.linear(f"{layer}.self_attn.o_proj", seen)
        )
        taken = model.root_norm(f"{layer}.pre_feedforward_layernorm", states)
        wide = _gelu_by_tanh(model.linear(f"{layer}.mlp.gate_proj", taken)) * model.linear(
            f"{layer}.mlp.up_proj", taken
        )
        states = states + model.root_norm(
            f"{layer}.post_feedforward_layernorm", model.linear(f"{layer}.mlp.down_proj", wide)
        )
    return model.root_norm("norm", states)


def _llama(model: Reference, token_ids: list[int]) -> Array:
    config, epsilon, base = model.config, model.config["rms_norm_eps"], model.config["rope_theta"]

    def norm(name: str, states: Array) -> Array:
        sized = states / np.sqrt((states**2).mean(axis=-1, keepdims=True) + epsilon)
        return sized * model.weights[f"{name}.weight"]

    states = model.weights["embed_tokens.weight"][token_ids]
    for layer in (f"layers.{index}" for index in range(config["num_hidden_layers"])):
        taken = norm(f"{layer}.input_layernorm", states)
        queries, keys, values = (
            _heads(model.linear(f"{layer}.self_attn.{name}_proj", taken), config[heads])
            for name, heads in (
                ("q", "num_attention_heads"),
                ("k", "num_key_value_heads"),
                ("v", "num_key_value_heads"),
            )
        )
        seen = _attend(_rotated(queries, base), _rotated(keys, base), values)
        states = states + model.linear(f"{layer}.self_attn.o_proj", seen)
        taken = norm(f"{layer}.post_attention_layernorm", states)
        gate = model.linear(f"{layer}.mlp.gate_proj", taken)
        wide = gate / (1 + np.exp(-gate)) * model.linear(f"{layer}.mlp.up_proj", taken)
        states = states + model.linear(f"{layer}.mlp.down_proj", wide)
    return norm("norm", states)


_KINDS: dict[str, Callable[[Reference, list[int]], Array]] = {
    "bert": _bert,
    "xlm-roberta": _bert,
    "modernbert": _modernbert,
    "gemma3_text": _gemma,
    "llama_bidirec": _llama,
}


def _heads(states: Array, num_heads: int) -> Array:
    return states.reshape(len(states), num_heads, -1).transpose(1, 0, 2)


def _attend(
    queries: Array, keys: Array, values: Array, *, scale: float | None = None, reach: int | None = None
) -> Array:
    """Attend within `reach` tokens on each side.

    Heads (heads, tokens, size) are side by side at the end; few keys may serve all.
    """
    repeats = len(queries) // len(keys)
    keys, values = np.repeat(keys, repeats, axis=0), np.repeat(values, repeats, axis=0)
    scores = queries @ keys.transpose(0, 2, 1) * (scale or queries.shape[-1] ** -0.5)
    places = np.arange(scores.shape[-1])
    if reach is not None:
        scores = np.where(abs(places[:, None] - places[None]) <= reach, scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    seen = (shares / shares.sum(axis=-1, keepdims=True)) @ values
    return seen.transpose(1, 0, 2).reshape(seen.shape[1], -1)


def _rotated(heads: Array, base: float) -> Array:
    """Rotate pairs of numbers by an angle that grows with position.

    A pair is half a head apart.
    """
    half = heads.shape[-1] // 2
    angles = np.arange(heads.shape[1])[:, None] * base ** (-np.arange(half) / half)
    one, other = heads[..., :half], heads[..., half:]
    return np.concatenate(
        [one * np.cos(angles) - other * np.sin(angles), other * np.cos(angles) + one * np.sin(angles)],
        axis=-1,
    )


def _gelu(numbers: Array) -> Array:
    return numbers * (1 + _erf(numbers / math.sqrt(2))) / 2


def _gelu_by_tanh(numbers: Array) -> Array:
    return numbers * (1 + np.tanh(math.sqrt(2 / math.pi) * (numbers + 0.044715 * numbers**3))) / 2
