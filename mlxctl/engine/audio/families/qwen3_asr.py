"""Qwen3-ASR: a language model whose prompt holds states of audio."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.audio.transcription_model import (
    TranscriptionModel,
    float_samples,
    in_thread,
    with_audio,
    write_tokens,
)
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.loading.audio_modules import open_tokenizer
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.languages import LANGUAGE_NAMES, language_code
from mlxctl.ir.transcription import SAMPLE_RATE

PACKAGE = "mlx_audio.stt.models.qwen3_asr.qwen3_asr"
MODULES = (PACKAGE, "transformers.models.whisper.feature_extraction_whisper", "transformers.models.auto")

_TEXT_MARK = "<asr_text>"
_LANGUAGE_MARK = "language "
# mlx-audio pads shorter audio.
_SHORTEST = SAMPLE_RATE
_EXACT_TOKENS = ("<|im_end|>", "<|endoftext|>")


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to transcribe."""
    tokenizer, features = read_processors(path)
    return _Qwen3ASR(model, tokenizer, features)


def read_processors(path: Path) -> tuple[Any, Any]:
    """Return tokenizer and feature extractor."""
    from transformers import WhisperFeatureExtractor

    return open_tokenizer(path), WhisperFeatureExtractor.from_pretrained(str(path), local_files_only=True)


def encoded_audio(model: Any, extractor: Any, window: AudioWindow) -> Generator[None, None, mx.array]:
    """Return the encoder's states of a window (steps, width).

    A unit is a layer; the spectrogram is computed by numpy on another thread.
    """
    samples = float_samples(window)
    samples = np.pad(samples, (0, max(0, _SHORTEST - len(samples))))
    extract = partial(
        extractor,
        samples,
        sampling_rate=SAMPLE_RATE,
        return_attention_mask=True,
        truncation=False,
        padding=True,
        return_tensors="np",
    )
    found = yield from in_thread(extract)
    features, mask = mx.array(found["input_features"]), mx.array(found["attention_mask"])
    tower = model.audio_tower
    states: mx.array = yield from by_layers(lambda: tower(features, mask), (tower, "layers"))
    mx.eval(states)
    yield
    return states


class _Qwen3ASR:
    def __init__(self, model: Any, tokenizer: Any, extractor: Any) -> None:
        self._model, self._tokenizer, self._extractor = model, tokenizer, extractor
        found = (tokenizer.convert_tokens_to_ids(token) for token in _EXACT_TOKENS)
        self._ends = {token_id for token_id in (*found, tokenizer.eos_token_id) if token_id is not None}

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window.

        A unit is a layer of the encoder or of the prompt, or a token.
        """
        model = self._model
        states = yield from encoded_audio(model, self._extractor, window)
        ids = mx.array(self._prompt(window, states.shape[0]))
        is_audio = ids[0] == model.config.audio_token_id
        prompt = with_audio(model.model.embed_tokens(ids), is_audio, states)
        caches = model.make_cache()
        read_prompt = partial(model._forward_with_embeds, prompt, caches)  # noqa: SLF001
        logits = yield from by_layers(read_prompt, (model.model, "layers"))
        written = yield from write_tokens(window, logits, self._ends, partial(model, cache=caches))
        text = self._tokenizer.decode(written, skip_special_tokens=True)
        language, text = _split_language(text) if window.language is None else (window.language, text)
        return TranscribedWindow(token_ids=written, text=text, language=language)

    def _prompt(self, window: AudioWindow, num_states: int) -> Any:
        """Return the ids of the prompt (1, length).

        Its form is that of mlx-audio.
        """
        system = f"{window.prompt}\n" if window.prompt else ""
        name = LANGUAGE_NAMES[window.language] if window.language else ""
        prompt = (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n<|audio_start|>"
            f"{'<|audio_pad|>' * num_states}<|audio_end|><|im_end|>\n<|im_start|>assistant\n"
            f"{f'{_LANGUAGE_MARK}{name}{_TEXT_MARK}' if name else ''}"
        )
        return self._tokenizer.encode(prompt, return_tensors="np")


def _split_language(text: str) -> tuple[str | None, str]:
    """Return the language that the model has written, and the text.

    The language is a code, None for an unknown one.
    """
    name, mark, rest = text.partition(_TEXT_MARK)
    if not mark or not name.startswith(_LANGUAGE_MARK):
        return None, text
    return language_code(name.removeprefix(_LANGUAGE_MARK).strip()), rest
