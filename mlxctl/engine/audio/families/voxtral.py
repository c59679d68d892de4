"""Voxtral: a language model whose prompt holds states of audio (arXiv:2507.13264)."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.audio.tekken import Tekken
from mlxctl.engine.audio.transcription_model import (
    TranscriptionModel,
    float_samples,
    in_thread,
    with_audio,
    write_tokens,
)
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.transcription import SAMPLE_RATE

PACKAGE = "mlx_audio.stt.models.voxtral"
MODULES = (PACKAGE, "mlx_audio.lm.models.cache", "transformers.models.whisper.feature_extraction_whisper")

_PROMPT_TOKENS = ("<s>", "[INST]", "[BEGIN_AUDIO]", "[/INST]", "[TRANSCRIBE]")
_END_TOKENS = ("</s>", "[/INST]", "<pad>")


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to transcribe.

    SEC: its hook may ask the hub, and is not called.
    """
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor.from_pretrained(str(path), local_files_only=True)
    return _Voxtral(model, Tekken(path, (*_PROMPT_TOKENS, *_END_TOKENS)), extractor)


class _Voxtral:
    def __init__(self, model: Any, tokenizer: Tekken, extractor: Any) -> None:
        self._model, self._tokenizer, self._extractor = model, tokenizer, extractor
        self._ends = {tokenizer.special[token] for token in _END_TOKENS}

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window, which is padded to 30 seconds.

        A unit is the spectrogram, a layer of the encoder or of the prompt, or a token.
        """
        from mlx_audio.lm.models.cache import make_prompt_cache

        model, text_model = self._model, self._model.language_model
        extract = partial(
            self._extractor, float_samples(window), sampling_rate=SAMPLE_RATE, return_tensors="np"
        )
        found = yield from in_thread(extract)
        features = mx.array(found["input_features"]).transpose(0, 2, 1)
        features = features.astype(model.audio_tower.conv1.weight.dtype)
        states = yield from by_layers(lambda: model.get_audio_embeds(features), (model.audio_tower, "layers"))
        mx.eval(states)
        yield
        ids = mx.array([self._prompt(window.language, states.shape[0])])
        is_audio = ids[0] == model.config.audio_token_id
        prompt = with_audio(text_model.model.embed_tokens(ids), is_audio, states)
        caches = make_prompt_cache(text_model)
        read_prompt = partial(text_model, cache=caches, input_embeddings=prompt)
        logits = yield from by_layers(read_prompt, (text_model.model, "layers"))
        written = yield from write_tokens(window, logits, self._ends, partial(text_model, cache=caches))
        text = self._tokenizer.decode(written).strip()
        return TranscribedWindow(token_ids=written, text=text, language=window.language)

    def _prompt(self, language: str | None, num_states: int) -> list[int]:
        """Return the prompt of mistral-common's transcription request.

        Without a language the model detects it.
        """
        encode, special = self._tokenizer.encode, self._tokenizer.special
        start, instruction, begin, end, transcribe = (special[token] for token in _PROMPT_TOKENS)
        named = [*encode("lang"), *encode(f":{language}")] if language else []
        audio = [self._model.config.audio_token_id] * num_states
        return [start, instruction, begin, *audio, end, *named, transcribe]
