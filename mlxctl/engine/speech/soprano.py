"""Soprano: a language model, whose hidden states a decoder makes audible.

MLX thread only. A unit is one token, or the sound of a sentence.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.loading.audio_modules import give_weights, open_tokenizer, read_config, read_tensors
from mlxctl.engine.speech.batch import Sound, SpeechBatch, TurnTaking
from mlxctl.engine.wire.jobs import Speak
from mlxctl.ir import SpeechRecipe

MODULES = ("mlx_audio.tts.models.soprano.soprano", "transformers")
# That of mlx-audio's `generate`.
_MAX_TOKENS = 512


def open_model(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers.
    """
    from mlx_audio.tts.models.soprano.soprano import Model, ModelConfig

    config = read_config(path)
    tensors = read_tensors(path)
    values = ModelConfig.from_dict({**config, "model_path": str(path)})
    _fit_decoder(values.decoder_config, tensors)
    model = Model(values)
    give_weights(model, model.sanitize(tensors), config)
    model.tokenizer = open_tokenizer(path)
    model.post_load_hook(path)
    return model


def _fit_decoder(config: Any, tensors: dict[str, mx.array]) -> None:
    """Set the decoder's sizes to those of its weights.

    mlx-audio guesses the version of the model by the name of its directory.
    """
    first = tensors.get("decoder.decoder.embed.weight")
    inner = tensors.get("decoder.decoder.convnext.0.pwconv1.weight")
    if first is not None and inner is not None:
        config.decoder_dim, config.input_kernel = first.shape[0], first.shape[1]
        config.decoder_intermediate_dim = inner.shape[0]


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:  # noqa: ARG001
    """Return the model's requests, which take turns."""

    def speak(job: Speak) -> Generator[Sound | None, None, None]:
        for prompt, _, _ in model._preprocess_text([job.text]):  # noqa: SLF001
            yield from _speak_sentence(model, prompt)

    return TurnTaking(speak)


def _speak_sentence(model: Any, prompt: str) -> Generator[Sound | None, None, None]:
    token_ids = model._tokenize(prompt)  # noqa: SLF001
    states = []
    for _, state in model.stream_generate(token_ids, max_tokens=_MAX_TOKENS):
        states.append(state)
        yield None
    samples = model.decoder(mx.concatenate(states, axis=1))[0]
    num_samples = (len(states) - 1) * model.config.decoder_config.token_size
    samples = samples[-num_samples:] if num_samples else samples
    mx.eval(samples)
    yield Sound(samples=samples, num_text_tokens=token_ids.size, num_audio_tokens=len(states) - 1)
