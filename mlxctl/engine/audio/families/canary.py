"""Canary: a conformer encoder with a transformer decoder.

Language tokens begin the decoder's prompt; without a language they are those of English.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.audio.transcription_model import TokenChoice, TranscriptionModel, float_samples
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow

PACKAGE = "mlx_audio.stt.models.canary"
MODULES = (PACKAGE, "sentencepiece")

_DEFAULT_LANGUAGE = "en"
# The decoder has this many positions; a window of 40 seconds has some 200 tokens.
_MAX_POSITIONS = 1024


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to transcribe.

    The hook of this family reads files only.
    """
    model = type(model).post_load_hook(model, path)
    if model._tokenizer is None:  # noqa: SLF001
        raise ValueError("it has no tokenizer.model, tokens.txt, or tokenizer in config.json")
    return _Canary(model)


class _Canary:
    def __init__(self, model: Any) -> None:
        self._model, self._tokenizer = model, model._tokenizer  # noqa: SLF001
        self._dtype = model.decoder.final_norm.weight.dtype

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window.

        A unit is the spectrogram, a layer, or a token.
        """
        model, language = self._model, window.language or _DEFAULT_LANGUAGE
        spectrogram = model._preprocess_audio(mx.array(float_samples(window))).astype(self._dtype)  # noqa: SLF001
        mx.eval(spectrogram)
        yield
        lengths = mx.array([spectrogram.shape[1]], dtype=mx.int32)
        encoder = model.encoder
        states, lengths = yield from by_layers(
            lambda: encoder(spectrogram, lengths), (encoder.conformer, "layers")
        )
        mask = (mx.arange(states.shape[1])[None] < lengths[:, None]).astype(mx.float32)
        prompt = self._tokenizer.build_prompt_tokens(source_lang=language, target_lang=language)
        choice, written = TokenChoice(window.temperature), list[int]()
        logits, caches = model.decoder(mx.array([prompt]), states, encoder_mask=mask)
        while len(prompt) + len(written) < _MAX_POSITIONS:
            token = choice.choose(logits[0, -1])
            if token == self._tokenizer.eos_id:
                break
            position = len(prompt) + len(written)
            written.append(token)
            yield
            logits, caches = model.decoder(
                mx.array([[token]]), states, encoder_mask=mask, cache=caches, start_pos=position
            )
        return TranscribedWindow(token_ids=written, text=self._tokenizer.decode(written), language=language)
