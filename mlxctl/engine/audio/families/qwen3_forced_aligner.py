"""Qwen3-ForcedAligner: times of the words of a known text.

One pass over audio and text; at the two marks after each word the model chooses times.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.audio.families.qwen3_asr import encoded_audio, read_processors
from mlxctl.engine.audio.transcription_model import TranscriptionModel, with_audio
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.transcription import TimedWord

PACKAGE = "mlx_audio.stt.models.qwen3_asr.qwen3_asr"
MODULES = (PACKAGE, "transformers.models.whisper.feature_extraction_whisper", "transformers.models.auto")

_MARKS = "<timestamp><timestamp>"


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to align."""
    tokenizer, features = read_processors(path)
    return _ForcedAligner(model, tokenizer, features)


class _ForcedAligner:
    def __init__(self, model: Any, tokenizer: Any, extractor: Any) -> None:
        self._model, self._tokenizer, self._extractor = model, tokenizer, extractor

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Find the times of the window's `words`; a unit is a layer."""
        model = self._model
        states = yield from encoded_audio(model, self._extractor, window)
        ids = mx.array(self._prompt(window.words, states.shape[0]))
        is_audio = ids[0] == model.config.audio_token_id
        prompt = with_audio(model.model.embed_tokens(ids), is_audio, states)
        hidden = yield from by_layers(
            lambda: model.model(inputs_embeds=prompt, cache=None), (model.model, "layers")
        )
        best: Any = np.array(mx.argmax(model.lm_head(hidden), axis=-1)[0])
        chosen = best[np.array(ids[0]) == model.config.timestamp_token_id]
        times = self._in_order(chosen * model.config.timestamp_segment_time)
        words = [
            TimedWord(text=word, start=times[2 * index] / 1000, end=times[2 * index + 1] / 1000)
            for index, word in enumerate(window.words)
        ]
        return TranscribedWindow(words=words)

    def _prompt(self, words: Sequence[str], num_states: int) -> Any:
        kept = (self._model.aligner_processor.clean_token(word) for word in words)
        text = "".join(f"{word}{_MARKS}" for word in kept)
        prompt = f"<|audio_start|>{'<|audio_pad|>' * num_states}<|audio_end|>{text}"
        return self._tokenizer.encode(prompt, return_tensors="np", add_special_tokens=False)

    def _in_order(self, times: Any) -> list[int]:
        """Return times in milliseconds, in order.

        Those before earlier ones are replaced, as mlx-audio does.
        """
        ordered: list[int] = self._model.aligner_processor.fix_timestamp(times)
        return ordered
