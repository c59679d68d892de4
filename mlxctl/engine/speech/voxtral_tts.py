"""Voxtral TTS: a language model whose states become codes by flow matching.

MLX thread only. A unit is the prompt, or one frame of 80 ms, some of them with the sound of the frames since
the last.
"""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.speech.batch import Sound, SpeechBatch, TurnTaking
from mlxctl.engine.wire.jobs import Speak
from mlxctl.ir import SpeechRecipe
from mlxctl.ir.speech import VOXTRAL_TTS_MAX_FRAMES

MODULES = ("mlx_audio.tts.models.voxtral_tts.voxtral_tts", "mistral_common.tokens.tokenizers.mistral")
# A policy: a sound of nearly a second, for which the frames before it are decoded again.
_FRAMES_PER_SOUND = 12
# The decoder's longest window, as mlx-audio has it.
_CONTEXT_FRAMES = 16
# Codes up to this one end the speech.
_LAST_MARK = 1


def open_model(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers.
    """
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from mlx_audio.tts.models.voxtral_tts.voxtral_tts import Model, ModelConfig

    config = read_config(path)
    model = Model(ModelConfig.from_dict(config))
    give_weights(model, model.sanitize(read_tensors(path)), config)
    tekken = path / "tekken.json"
    model._load_tekken_metadata(json.loads(tekken.read_text(encoding="utf-8")))  # noqa: SLF001
    model.tokenizer = MistralTokenizer.from_file(str(tekken))
    model._sync_prompt_token_ids_from_tokenizer()  # noqa: SLF001
    for file in (path / "voice_embedding").glob("*.safetensors"):
        model._voice_embedding_files[file.stem] = file  # noqa: SLF001
    return model


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:
    """Return the model's requests, which take turns."""
    from mlx_audio.lm.models.cache import make_prompt_cache

    def speak(job: Speak) -> Generator[Sound | None, None, None]:
        voice = job.voice or recipe.default_voice
        token_ids = mx.array(model._encode_text(job.text, voice))[None]  # noqa: SLF001
        cache = make_prompt_cache(model.language_model.model)
        embeddings = model._build_input_embeddings(token_ids, voice)  # noqa: SLF001
        states = model.language_model.model.model(token_ids, cache=cache, input_embeddings=embeddings)
        mx.eval(states)
        yield None
        frames: list[mx.array] = []
        num_decoded, num_text_tokens = 0, token_ids.size
        while len(frames) < VOXTRAL_TTS_MAX_FRAMES:
            codes = model.acoustic_transformer.decode_one_frame(states[:, -1])
            if codes[0, 0].item() <= _LAST_MARK:
                break
            frames.append(codes[:, None])
            states = _next_states(model, codes, cache)
            sound = None
            if len(frames) - num_decoded >= _FRAMES_PER_SOUND:
                sound = _decode(model, frames, num_decoded, num_text_tokens=num_text_tokens)
                num_decoded, num_text_tokens = len(frames), 0
            mx.eval(states)
            yield sound
        if not frames:
            raise ValueError("the model wrote no sound")
        if len(frames) > num_decoded:
            yield _decode(model, frames, num_decoded, num_text_tokens=num_text_tokens)

    return TurnTaking(speak)


def _next_states(model: Any, codes: mx.array, cache: Any) -> mx.array:
    """Return the hidden states after a frame."""
    indices = model._codes_to_global_indices(codes)  # noqa: SLF001
    embedding = model.audio_codebook_embeddings["embeddings"](indices).sum(axis=1, keepdims=True)
    audio = mx.array([[model.config.audio_token_id]])
    states: mx.array = model.language_model.model.model(audio, cache=cache, input_embeddings=embedding)
    return states


def _decode(model: Any, frames: list[mx.array], num_decoded: int, *, num_text_tokens: int) -> Sound:
    """Return the sound of the frames after the first `num_decoded`."""
    start = max(0, num_decoded - _CONTEXT_FRAMES)
    samples = model.audio_tokenizer.decode(mx.concatenate(frames[start:], axis=1))[0]
    samples_per_frame = samples.size // (len(frames) - start)
    samples = samples[(num_decoded - start) * samples_per_frame :]
    mx.eval(samples)
    return Sound(samples=samples, num_text_tokens=num_text_tokens, num_audio_tokens=len(frames) - num_decoded)
