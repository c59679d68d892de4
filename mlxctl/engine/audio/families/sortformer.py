"""Sortformer: speaker diarization in windows, with a speaker cache.

arXiv:2409.06656, and arXiv:2507.18446 for the cache, whose size is bounded. Up to four speakers.
"""

import io
from collections.abc import Generator
from dataclasses import fields
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.audio.transcription_model import TranscriptionModel, float_samples
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir import SpeakerTurn

PACKAGE = "mlx_audio.vad.models.sortformer"
MODULES = (PACKAGE,)

# mlx-audio's own sizes of the cache and of the latest frames before it.
_CACHE_FRAMES = 188


def open_model(model: Any, path: Path) -> TranscriptionModel:  # noqa: ARG001 -- it has no further files
    """Return the model, ready to find turns.

    Raises ValueError for one that never fills its cache.
    """
    if model.config.modules_config.spkcache_update_period < 1:
        raise ValueError("its config.json has no spkcache_update_period")
    return _Sortformer(model)


class _Sortformer:
    def __init__(self, model: Any) -> None:
        self._model = model
        processor = model.config.processor_config
        self._frame_samples = processor.hop_length * model.config.fc_encoder_config.subsampling_factor

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Find the turns of a window, and the state for the next.

        A unit is the spectrogram, or a layer.
        """
        model = self._model
        features = self._features(float_samples(window))
        mx.eval(features)
        yield
        length = mx.array([features.shape[2]])
        before = _read(window.state, model.init_streaming_state())
        likelihoods, state = yield from by_layers(
            lambda: model.streaming_step(features, length, before),
            (model.fc_encoder, "layers"),
            (model.tf_encoder, "layers"),
        )
        # Models with a short update period drop a part of what is too much.
        while state.fifo_len > _CACHE_FRAMES:
            state = model._maybe_compress_state(  # noqa: SLF001
                state, _CACHE_FRAMES, _CACHE_FRAMES, model.config.modules_config
            )
        # The last frame of the spectrogram lies behind the window.
        num_frames = -(-len(window.samples) // 2 // self._frame_samples)
        seconds = self._frame_samples / model.config.processor_config.sampling_rate
        found = model._preds_to_segments(likelihoods[:num_frames], frame_duration=seconds)  # noqa: SLF001
        turns = [SpeakerTurn(speaker=turn.speaker, start=turn.start, end=turn.end) for turn in found]
        return TranscribedWindow(turns=turns, state=_written(state))

    def _features(self, samples: Any) -> mx.array:
        """Return the spectrogram (1, bins, steps) of mlx-audio's chunks."""
        from mlx_audio.vad.models.sortformer.sortformer import extract_mel_features

        processor = self._model.config.processor_config
        is_streaming = self._model.config.modules_config.use_aosc
        samples = np.pad(samples, (0, max(0, self._frame_samples - len(samples))))
        if not is_streaming:
            samples = samples / (np.abs(samples).max() + 1e-3)
        features: mx.array = extract_mel_features(
            mx.array(samples),
            sample_rate=processor.sampling_rate,
            n_fft=processor.n_fft,
            hop_length=processor.hop_length,
            win_length=processor.win_length,
            n_mels=processor.feature_size,
            preemphasis_coeff=processor.preemphasis,
            normalize=None if is_streaming else "per_feature",
            pad_to=0,
        )
        return features


def _written(state: Any) -> bytes:
    file = io.BytesIO()
    arrays = {field.name: getattr(state, field.name) for field in fields(state)}
    np.savez(file, **{name: np.array(mx.array(array).astype(mx.float32)) for name, array in arrays.items()})
    return file.getvalue()


def _read(data: bytes, empty: Any) -> Any:
    if not data:
        return empty
    arrays: Any = np.load(io.BytesIO(data), allow_pickle=False)
    found = {name: mx.array(arrays[name]) for name in arrays.files}
    return type(empty)(**found | {"frames_processed": int(found["frames_processed"])})
