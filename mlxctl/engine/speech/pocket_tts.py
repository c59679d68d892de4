"""Pocket TTS: a transformer that writes continuous latents, with Mimi as decoder.

MLX thread only. A unit is the voice, or one frame of 80 ms.
"""

import copy
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.speech.batch import Sound, SpeechBatch, TurnTaking
from mlxctl.engine.speech.streaming_state import with_own_state
from mlxctl.engine.wire.jobs import Speak
from mlxctl.ir import SpeechRecipe

MODULES = ("mlx_audio.tts.models.pocket_tts.pocket_tts",)
_VOICE_FOLDERS = ("voices", "embeddings")


def open_model(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers, and for a tokenizer that would be downloaded.
    """
    from mlx_audio.tts.models.pocket_tts.pocket_tts import Model, ModelConfig

    config = read_config(path)
    values = ModelConfig.from_dict({**config, "model_path": str(path)})
    tokenizer = values.flow_lm.lookup_table.tokenizer_path
    if not Path(tokenizer).is_relative_to(path):
        raise ValueError(f"its directory has no tokenizer.model or tokenizer.json; it names {tokenizer!r}")
    model = Model(values)
    give_weights(model, model.sanitize(read_tensors(path)), config)
    return model


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:
    """Return the model's requests, which take turns."""

    def speak(job: Speak) -> Generator[Sound | None, None, None]:
        own = copy.copy(model)
        own.mimi = with_own_state(model.mimi)
        state = own.get_state_for_audio_prompt(_voice(job, recipe, Path(model.config.model_path)))
        mx.eval([cache.state for cache in state["flow_cache"] if cache.keys is not None])
        yield None
        num_text_tokens = model.flow_lm.conditioner.prepare(job.text).tokens.size
        for samples in own.generate_audio_stream(model_state=state, text_to_generate=job.text):
            mx.eval(samples)
            yield Sound(samples=samples, num_text_tokens=num_text_tokens, num_audio_tokens=1)
            num_text_tokens = 0

    return TurnTaking(speak)


def _voice(job: Speak, recipe: SpeechRecipe, path: Path) -> Any:
    """Return the file of a voice, or the samples of the reference.

    Raises ValueError for a voice without a file, which mlx-audio would download.
    """
    if job.reference is not None:
        return mx.array(np.frombuffer(job.reference.samples, "<f4"))
    name = job.voice or recipe.default_voice
    files = [path / folder / f"{name}.safetensors" for folder in _VOICE_FOLDERS]
    files.append(path / f"{name}-voice.safetensors")
    found = next((file for file in files if file.is_file()), None)
    if name not in recipe.voices or found is None:
        raise ValueError(f"its directory has no file for voice {name!r}")
    return found
