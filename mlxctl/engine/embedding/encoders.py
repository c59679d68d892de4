"""Encoders, layer by layer, of several packages. MLX thread only.

Tokens attend to the whole text, so a text cannot be cut, but its layers can be computed one after the other,
with pauses. Masks are ours: those of mlx-vlm may lack a window.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn

from mlxctl.ir import EncoderKind


class Masks:
    """Boolean attention masks for a batch of padded texts.

    A mask is None where all tokens attend to all others.
    """

    def __init__(self, lengths: list[int], *, width: int, reach: int | None) -> None:
        """`reach` is the window of local layers, in tokens on each side."""
        is_text = mx.arange(width)[None, :] < mx.array(lengths)[:, None]
        self.everywhere: mx.array | None = None if min(lengths) == width else is_text[:, None, None, :]
        self.nearby = self.everywhere
        if reach is not None and reach < width - 1:
            places = mx.arange(width)
            is_near = (mx.abs(places[:, None] - places[None, :]) <= reach)[None, None]
            # NOTE: padding far from the text attends to itself, or its states would be NaN.
            self.nearby = (
                is_near
                if self.everywhere is None
                else is_near & (self.everywhere | mx.eye(width, dtype=mx.bool_))
            )


class Encoder(Protocol):
    """The layers of a model.

    `reach` is that of Masks; states are (texts, tokens, width); `config` has the names of config.json.
    """

    reach: int | None
    num_layers: int
    vocabulary_size: int
    config: Mapping[str, Any]

    def begin(self, token_ids: mx.array, segments: mx.array | None = None) -> mx.array:
        """Return the input of the first layer for token ids (texts, tokens).

        `segments` are 1 for the tokens of a pair's second text.
        """
        ...

    def layer(self, index: int, states: mx.array, masks: Masks) -> mx.array:
        """Return the states after a layer."""
        ...

    def end(self, states: mx.array) -> mx.array:
        """Return the model's output for the states of the last layer."""
        ...


class BertEncoder:
    """BERT and RoBERTa, which number positions differently."""

    reach: int | None = None

    def __init__(self, model: Any) -> None:
        self._embeddings = model.embeddings
        self.config: Mapping[str, Any] = vars(model.config)
        self._layers = model.encoder.layer
        self.num_layers = len(self._layers)
        self.vocabulary_size = _num_rows(model.embeddings.word_embeddings)

    def begin(self, token_ids: mx.array, segments: mx.array | None = None) -> mx.array:
        """Return token, position and segment embeddings.

        RoBERTa has one segment only.
        """
        has_segments = self.config["type_vocab_size"] > 1
        states: mx.array = self._embeddings(token_ids, segments if has_segments else None)
        return states

    def layer(self, index: int, states: mx.array, masks: Masks) -> mx.array:
        """Compute a layer; all attend to the whole text."""
        taken: mx.array = self._layers[index](states, masks.everywhere)
        return taken

    def end(self, states: mx.array) -> mx.array:
        """Return the states: the last layer normalizes them."""
        return states


class ModernBertEncoder:
    """ModernBERT, whose layers choose between the two masks."""

    def __init__(self, model: Any) -> None:
        self._model = model
        for layer in model.layers:
            # mlx-vlm approximates it, and its vectors differ in the fourth digit.
            layer.mlp.act = nn.GELU()
        self.config: Mapping[str, Any] = vars(model.config)
        self.reach: int | None = model.config.local_attention // 2
        self.num_layers = len(model.layers)
        self.vocabulary_size = _num_rows(model.embeddings.tok_embeddings)

    def begin(self, token_ids: mx.array, segments: mx.array | None = None) -> mx.array:  # noqa: ARG002 -- none
        """Return token embeddings of the texts."""
        states: mx.array = self._model.embeddings(token_ids)
        return states

    def layer(self, index: int, states: mx.array, masks: Masks) -> mx.array:
        """Compute a layer; most have a window."""
        taken: mx.array = self._model.layers[index](states, masks.everywhere, masks.nearby)
        return taken

    def end(self, states: mx.array) -> mx.array:
        """Return the normalized states."""
        taken: mx.array = self._model.final_norm(states)
        return taken


class Gemma3Encoder:
    """EmbeddingGemma: the layers of Gemma 3 with bidirectional masks.

    Its window counts both sides together.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.model
        self.config: Mapping[str, Any] = vars(model.args)
        self._scale = float(model.args.hidden_size) ** 0.5
        self.reach: int | None = model.args.sliding_window // 2
        self.num_layers = len(model.model.layers)
        self.vocabulary_size = _num_rows(model.model.embed_tokens)

    def begin(self, token_ids: mx.array, segments: mx.array | None = None) -> mx.array:  # noqa: ARG002 -- none
        """Return token embeddings, scaled in the precision of the weights."""
        states: mx.array = self._model.embed_tokens(token_ids)
        return states * mx.array(self._scale, states.dtype)

    def layer(self, index: int, states: mx.array, masks: Masks) -> mx.array:
        """Compute a layer; most have a window."""
        layer = self._model.layers[index]
        taken: mx.array = layer(states, masks.nearby if layer.self_attn.is_sliding else masks.everywhere)
        return taken

    def end(self, states: mx.array) -> mx.array:
        """Return the normalized states."""
        taken: mx.array = self._model.norm(states)
        return taken


class LlamaEncoder:
    """Llama with bidirectional attention, such as NVIDIA's embedding models."""

    reach: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model.model
        self.config: Mapping[str, Any] = vars(model.config)
        self.num_layers = len(model.model.layers)
        self.vocabulary_size = _num_rows(model.model.embed_tokens)

    def begin(self, token_ids: mx.array, segments: mx.array | None = None) -> mx.array:  # noqa: ARG002 -- none
        """Return token embeddings of the texts."""
        states: mx.array = self._model.embed_tokens(token_ids)
        return states

    def layer(self, index: int, states: mx.array, masks: Masks) -> mx.array:
        """Compute a layer; all attend to the whole text."""
        taken: mx.array = self._model.layers[index](states, masks.everywhere)
        return taken

    def end(self, states: mx.array) -> mx.array:
        """Return the normalized states."""
        taken: mx.array = self._model.norm(states)
        return taken


def open_encoder(model: Any, kind: EncoderKind) -> Encoder:
    """Return the encoder of a loaded model."""
    match kind:
        case "bert" | "xlm_roberta":
            return BertEncoder(model)
        case "modernbert":
            return ModernBertEncoder(model)
        case "gemma3_text":
            return Gemma3Encoder(model)
        case "llama_bidirec":
            return LlamaEncoder(model)


def encoded(encoder: Encoder, token_ids: mx.array) -> mx.array:
    """Return the output for texts of equal length.

    Runs all layers at once.
    """
    lengths = [token_ids.shape[1]] * token_ids.shape[0]
    masks, states = Masks(lengths, width=token_ids.shape[1], reach=encoder.reach), encoder.begin(token_ids)
    for index in range(encoder.num_layers):
        states = encoder.layer(index, states, masks)
    return encoder.end(states)


def _num_rows(table: Any) -> int:
    # Quantized weights have as many rows as others.
    return int(table.weight.shape[0])
