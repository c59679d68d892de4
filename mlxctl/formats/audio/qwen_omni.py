"""Qwen3-Omni: Whisper's spectrogram of any length."""

from typing import Any

from mlxctl.formats.audio.family import AudioCut, AudioFamily, AudioFiles, audio_token_id
from mlxctl.formats.audio.spectrogram import HOP, hann, mel_filters, spectra
from mlxctl.ir import AudioRecipe

_START, _END = "<|audio_start|>", "<|audio_end|>"
_LENGTH = 400
# Frames of one window of the encoder, and its tokens.
_WINDOW, _WINDOW_TOKENS = 100, 13


def _recipe(files: AudioFiles) -> AudioRecipe:
    files.check(feature_size=128, sampling_rate=16_000, n_fft=_LENGTH, hop_length=HOP, dither=0.0)
    return AudioRecipe(family="qwen3_omni", audio_token_id=audio_token_id(files))


def _cut(samples: Any, _: AudioRecipe) -> AudioCut:
    import numpy as np

    def mels(frames: Any) -> Any:
        power = np.abs(np.fft.rfft(frames * hann(_LENGTH))) ** 2
        filters = mel_filters(_LENGTH, 0.0, 8000.0, is_slaney=True)
        return np.log10(np.maximum(power @ filters, 1e-10))

    centered = np.pad(samples, _LENGTH // 2, mode="reflect")
    features = spectra(centered, _LENGTH, mels)[:-1]
    features = (np.maximum(features, features.max() - 8.0) + 4.0) / 4.0
    windows, rest = divmod(len(features), _WINDOW)
    rest = -(-rest // 8)  # three convolutions of stride 2
    return AudioCut(layout=[windows * _WINDOW_TOKENS + rest], features=features)


FAMILY = AudioFamily(
    name="qwen3_omni",
    model_types=("qwen3_omni_moe",),
    # The longest that it was trained for.
    max_seconds=40 * 60,
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
)
