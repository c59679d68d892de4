"""SenseVoice: an encoder with a CTC decoder.

Its first four outputs are language, emotion, event and the kind of text; only the language is used.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.audio.transcription_model import TranscriptionModel, float_samples
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.languages import LANGUAGE_NAMES

PACKAGE = "mlx_audio.stt.models.sensevoice"
MODULES = (PACKAGE, "sentencepiece")

_NUM_MARKS = 4
_LAYER_LISTS = ("encoders0", "encoders", "tp_encoders")
_DETECTED = "auto"


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to transcribe.

    The hook of this family reads files only.
    """
    return _SenseVoice(type(model).post_load_hook(model, path))


class _SenseVoice:
    def __init__(self, model: Any) -> None:
        self._model = model

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window, with numbers and punctuation.

        A unit is the features, or a layer.
        """
        model = self._model
        features = model._extract_features(mx.array(float_samples(window)))[None]  # noqa: SLF001
        mx.eval(features)
        yield
        run = lambda: model(features, language=window.language or _DETECTED, use_itn=True)  # noqa: E731
        scores = yield from by_layers(run, *((model.encoder, name) for name in _LAYER_LISTS))
        mx.eval(scores)
        yield
        language = model._extract_rich_info(scores[0, :_NUM_MARKS])["language"]  # noqa: SLF001
        ids, text = model._greedy_ctc_decode(scores[0, _NUM_MARKS:])  # noqa: SLF001
        return TranscribedWindow(
            token_ids=ids, text=text, language=language if language in LANGUAGE_NAMES else None
        )
