"""Loads an embedding model and creates its embedder. MLX thread only."""

import time
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

import mlx.core as mx

from mlxctl.engine.embedding.decoder_embedder import DecoderEmbedder
from mlxctl.engine.embedding.embedder import Embedder
from mlxctl.engine.embedding.encoder_embedder import EncoderEmbedder
from mlxctl.engine.embedding.encoders import encoded, open_encoder
from mlxctl.engine.embedding.weights import embedding_classes, modules_of
from mlxctl.engine.generation.measurement import measure
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.imports import import_in_thread
from mlxctl.engine.loading.loader import load_lm_model, parameter_bytes, read_weights
from mlxctl.ir import EmbeddingRecipe, EncoderKind, ModelSpec
from mlxctl.library.prefill_memory import estimate_prefill_bytes

_FLOAT_BYTES = 4


def load_embedding_model(spec: ModelSpec, recipe: EmbeddingRecipe) -> Generator[int, None, LoadedWeights]:
    """Load the model without its head and run one token.

    Yields the number of bytes read so far.
    """
    started = time.monotonic()
    for _ in import_in_thread(*modules_of(recipe)):
        yield 0
    model, _ = load_lm_model(
        spec.path,
        trust_remote_code=spec.trust_remote_code,
        get_model_classes=partial(embedding_classes, recipe=recipe, path=spec.path),
    )
    yield from read_weights(model)
    if recipe.encoder is None:
        return measure(model, started, embedding=recipe)
    return _measure_encoder(model, recipe, recipe.encoder, started)


def create_embedder(weights: LoadedWeights, recipe: EmbeddingRecipe) -> Embedder:
    """Return the embedder of a model that was loaded with this recipe."""
    if recipe.encoder is None:
        return DecoderEmbedder(weights.model, recipe, kv_bytes_per_token=weights.kv_bytes_per_token)
    encoder = open_encoder(weights.model, recipe.encoder)
    return EncoderEmbedder(weights.model, encoder, recipe, bytes_for=partial(_estimate_bytes, encoder.config))


def _measure_encoder(model: Any, recipe: EmbeddingRecipe, kind: EncoderKind, started: float) -> LoadedWeights:
    model.eval()
    encoder = open_encoder(model, kind)
    states = encoded(encoder, mx.array([[0]], dtype=mx.uint32))
    mx.eval(states)
    return LoadedWeights(
        model=model,
        vocabulary_size=encoder.vocabulary_size,
        weights_bytes=parameter_bytes(model),
        kv_bytes_per_token=0,
        cache_kind="plain",
        can_batch=True,
        load_seconds=time.monotonic() - started,
        dimensions=recipe.num_dimensions(int(states.shape[-1])),
    )


def _estimate_bytes(config: Mapping[str, Any], num_tokens: int) -> int:
    """Estimate the memory of one layer for a text.

    0 where the configuration lacks a size.
    """
    estimate = estimate_prefill_bytes(
        config,
        chunk_tokens=num_tokens,
        context_tokens=num_tokens,
        float_bytes=_FLOAT_BYTES,
        has_metal=mx.metal.is_available(),
    )
    return estimate or 0
