"""Which embedder a loaded model gets. MLX thread only."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import mlx.core as mx

from mlxctl.engine.embedding.decoder_embedder import DecoderEmbedder
from mlxctl.engine.embedding.embedder import Embedder
from mlxctl.engine.embedding.encoder_embedder import EncoderEmbedder
from mlxctl.engine.embedding.encoders import open_encoder
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.ir import EmbeddingRecipe
from mlxctl.models.prefill_memory import estimate_prefill_bytes

_FLOAT_BYTES = 4


def open_embedder(weights: LoadedWeights, recipe: EmbeddingRecipe) -> Embedder:
    """Return what computes jobs for a model that was loaded with this recipe."""
    if recipe.encoder is None:
        return DecoderEmbedder(weights.model, recipe, kv_bytes_per_token=weights.kv_bytes_per_token)
    encoder = open_encoder(weights.model, recipe.encoder)
    return EncoderEmbedder(weights.model, encoder, recipe, bytes_for=partial(_estimate_bytes, encoder.config))


def _estimate_bytes(config: Mapping[str, Any], num_tokens: int) -> int:
    """Estimate what a text takes while a layer is computed; little, where the configuration does not tell."""
    told = estimate_prefill_bytes(
        config,
        chunk_tokens=num_tokens,
        context_tokens=num_tokens,
        float_bytes=_FLOAT_BYTES,
        has_metal=mx.metal.is_available(),
    )
    return told or 0
