"""Kokoro: phonemes get durations, pitch and loudness, and become sound.

MLX thread only. A unit is a layer of one of its parts; a sentence is heard at its end. The layers and their
order are those of mlx-audio, which runs them in one pass.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.speech.batch import Sound, SpeechBatch, TurnTaking
from mlxctl.engine.speech.english_lexicon import open_lexicon
from mlxctl.engine.speech.english_phonemes import phonemes_of
from mlxctl.engine.speech.kokoro_generator import waveform
from mlxctl.engine.wire.jobs import Speak
from mlxctl.ir import SpeechRecipe
from mlxctl.ir.speech import KOKORO_MAX_FRAMES

MODULES = ("mlx_audio.tts.models.kokoro.kokoro",)
_MAX_PHONEME_FRAMES = 100
# The first half of a voice is for the sound, the second for the rhythm.
_STYLE_WIDTH = 128
_BRITISH = "b"

_Steps = Generator[None, None, mx.array]


def open_model(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers.
    """
    from mlx_audio.tts.models.kokoro.kokoro import Model, ModelConfig

    config = read_config(path)
    model = Model(ModelConfig.from_dict({**config, "model_path": str(path)}))
    give_weights(model, model.sanitize(read_tensors(path)), config)
    return model


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:
    """Return the model's requests, which take turns."""

    def speak(job: Speak) -> Generator[Sound | None, None, None]:
        name = job.voice or recipe.default_voice or ""
        voice = _voice(Path(model.config.model_path), name, recipe)
        for phonemes in phonemes_of(job.text, open_lexicon(british=name.startswith(_BRITISH))):
            samples = yield from _speak_phonemes(model, phonemes, voice, speed=job.speed)
            yield Sound(samples=samples, num_text_tokens=len(phonemes), num_audio_tokens=len(phonemes))

    return TurnTaking(speak)


def _voice(path: Path, name: str, recipe: SpeechRecipe) -> mx.array:
    """Return a style (1, 2 * width) for each number of phonemes."""
    if name not in recipe.voices:
        raise ValueError(f"its directory has no file for voice {name!r}")
    tensors: Any = mx.load(str(path / "voices" / f"{name}.safetensors"))
    voice: mx.array = tensors["voice"]
    return voice


def _speak_phonemes(model: Any, phonemes: str, voice: mx.array, *, speed: float) -> _Steps:
    """Return the samples of a sentence, (num_samples,)."""
    known = [model.vocab[phoneme] for phoneme in phonemes if phoneme in model.vocab]
    ids = mx.array([[0, *known, 0]])
    style = voice[min(len(phonemes), len(voice)) - 1]
    rhythm = style[:, _STYLE_WIDTH:]
    states, _ = model.bert(ids, attention_mask=mx.ones_like(ids))
    states = model.bert_encoder(states)
    mx.eval(states)
    yield
    states = yield from _text_states(model.predictor.text_encoder, states, rhythm)
    lengths = yield from _both_directions(model.predictor.lstm, states)
    frames = _frames(model.predictor.duration_proj(lengths), speed)
    pitch, loudness = yield from _pitch_and_loudness(model.predictor, states[:, frames], rhythm)
    letters = yield from _letter_states(model.text_encoder, ids)
    return (
        yield from waveform(model.decoder, letters[..., frames], pitch, loudness, style[:, :_STYLE_WIDTH])
    )


def _text_states(encoder: Any, states: mx.array, rhythm: mx.array) -> _Steps:
    """Return states (1, phonemes, width) that know the rhythm of the voice."""
    repeated = mx.broadcast_to(rhythm[:, None], (1, states.shape[1], rhythm.shape[-1]))
    states = mx.concatenate([states, repeated], axis=-1)
    for recurrent, norm in zip(encoder.lstms[::2], encoder.lstms[1::2], strict=True):
        states = yield from _both_directions(recurrent, states)
        states = mx.concatenate([norm(states, rhythm), repeated], axis=-1)
        mx.eval(states)
        yield
    return states


def _both_directions(recurrent: Any, states: mx.array) -> _Steps:
    """Return the outputs of a layer that reads from both ends.

    States and outputs are (1, places, width).
    """
    onward, _ = recurrent._forward_direction(states)  # noqa: SLF001
    mx.eval(onward)
    yield
    back, _ = recurrent._backward_direction(states)  # noqa: SLF001
    mx.eval(back)
    yield
    return mx.concatenate([onward, back], axis=-1)


def _frames(durations: mx.array, speed: float) -> mx.array:
    """Return the place of the phoneme of each frame.

    The durations are (1, places, steps).
    """
    seconds = mx.sigmoid(durations).sum(axis=-1) / speed
    seconds = mx.nan_to_num(seconds, nan=1.0, posinf=_MAX_PHONEME_FRAMES, neginf=1.0)
    counts: Any = np.array(mx.clip(mx.round(seconds), 1, _MAX_PHONEME_FRAMES)[0].astype(mx.int32))
    return mx.array(np.repeat(np.arange(len(counts)), counts)[:KOKORO_MAX_FRAMES])


def _pitch_and_loudness(
    predictor: Any, states: mx.array, rhythm: mx.array
) -> Generator[None, None, tuple[mx.array, mx.array]]:
    """Return the curves of both, (1, 2 * frames)."""
    shared = yield from _both_directions(predictor.shared, states)
    curves = []
    for blocks, projection in ((predictor.F0, predictor.F0_proj), (predictor.N, predictor.N_proj)):
        curve = shared.transpose(0, 2, 1)
        for block in blocks:
            curve = block(curve, rhythm)
            mx.eval(curve)
            yield
        curves.append(projection(curve.swapaxes(2, 1))[..., 0])
    return curves[0], curves[1]


def _letter_states(encoder: Any, ids: mx.array) -> _Steps:
    """Return states (1, width, phonemes) of the phonemes themselves."""
    states = encoder.embedding(ids)
    for convolution, norm, activation, _ in encoder.cnn:
        states = activation(norm(convolution(states, mx.conv1d)))
    mx.eval(states)
    yield
    states = yield from _both_directions(encoder.lstm, states)
    return states.swapaxes(2, 1)
