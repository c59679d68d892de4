"""The prompt of Qwen3-TTS: text, voice or recording. MLX thread only."""

from collections.abc import Generator
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import Speak
from mlxctl.ir import ReferenceAudio, SpeechRecipe

Prompt = tuple[mx.array, mx.array, mx.array]
"""Embeddings of the prompt, of the text after it, and of padding: each (1, places, width)."""


def prompt_of(model: Any, job: Speak, recipe: SpeechRecipe) -> Generator[None, None, Prompt]:
    """Return a request's prompt.

    A recording is encoded a layer at a time. Raises ValueError for a model that cannot encode one.
    """
    language = job.language or "auto"
    if job.reference is None:
        named: Prompt = model._prepare_generation_inputs(  # noqa: SLF001
            job.text,
            language=language,
            speaker=job.voice or recipe.default_voice,
            instruct=job.instructions,
        )
        return named
    return (yield from _cloning_prompt(model, job.text, job.reference, language))


def _cloning_prompt(
    model: Any, text: str, reference: ReferenceAudio, language: str
) -> Generator[None, None, Prompt]:
    codec = model.speech_tokenizer
    if not codec.has_encoder:
        raise ValueError("the model's speech tokenizer has no encoder, so it cannot clone a voice")
    samples = mx.array(np.frombuffer(reference.samples, "<f4"))
    encoder = codec.encoder_model
    codes = yield from by_layers(
        lambda: codec.encode(samples[None, None]),
        (encoder.encoder, "layers"),
        (encoder.encoder_transformer.transformer, "layers"),
    )
    mx.eval(codes)
    yield
    voice = model.extract_speaker_embedding(samples)
    yield
    # mlx-audio computes both itself, in one pass.
    codec.encode, model.extract_speaker_embedding = (lambda _: codes), (lambda _: voice)
    try:
        *prepared, _ = model._prepare_icl_generation_inputs(  # noqa: SLF001
            text, ref_audio=samples, ref_text=reference.text, language=language
        )
    finally:
        del codec.encode, model.extract_speaker_embedding
        # It would keep the codes of every reference.
        model._icl_cache.clear()  # noqa: SLF001
    return (prepared[0], prepared[1], prepared[2])
