"""Phi-4 multimodal: a spectrogram of 80 bands, as by SpeechLib."""

from functools import cache
from typing import Any

from mlxctl.formats.audio.family import AudioCut, AudioFamily, AudioFiles
from mlxctl.formats.audio.spectrogram import spectra
from mlxctl.formats.vision.family import whole
from mlxctl.formats.vision.phi4mm import refuse_separate_adapters
from mlxctl.ir import AudioRecipe

_LENGTH, _FFT_LENGTH, _NUM_BANDS = 400, 512, 80
_HIGHEST_HZ, _RATE = 7690, 16_000
_PREEMPHASIS = 0.97
_AUDIO_TOKEN_ID = 200_011


def _recipe(files: AudioFiles) -> AudioRecipe:
    refuse_separate_adapters(files.tensor_names)
    settings = files.config.get("audio_processor") or {}
    inner = settings.get("config") or {} if isinstance(settings, dict) else {}
    return AudioRecipe(
        family="phi4mm",
        audio_token_id=whole(files.config, "audio_token_index", usual=_AUDIO_TOKEN_ID),
        sizes={"frames_per_token": whole(inner, "time_reduction", usual=8)},
    )


def _cut(samples: Any, recipe: AudioRecipe) -> AudioCut:
    import numpy as np

    def bands(frames: Any) -> Any:
        before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
        sharpened = (frames - _PREEMPHASIS * before) * 32768
        power = np.abs(np.fft.rfft(np.hamming(_LENGTH) * sharpened, n=_FFT_LENGTH)) ** 2
        return np.log(np.maximum(power @ _filters(), 1.0))

    features = spectra(samples, _LENGTH, bands)
    return AudioCut(layout=[-(-len(features) // recipe.sizes["frames_per_token"])], features=features)


@cache
def _filters() -> Any:
    """Return triangular filters (frequencies, bands) whose corners are bins of the spectrum."""
    import numpy as np

    def mel(hz: Any) -> Any:
        return 1127.0 * np.log(1.0 + hz / 700.0)

    centers = np.linspace(0.0, mel(_HIGHEST_HZ), _NUM_BANDS + 2)
    bins = np.arange(_FFT_LENGTH // 2 + 1)
    distances = np.abs(mel(bins * _RATE / _FFT_LENGTH)[:, None] - centers[None, 1:-1])
    filters = np.maximum(0.0, 1.0 - distances / centers[1])
    highest = int(_HIGHEST_HZ * _FFT_LENGTH / _RATE + 0.5)
    return np.where(((bins > 0) & (bins < highest))[:, None], filters, 0.0)


FAMILY = AudioFamily(
    name="phi4mm",
    model_types=("phi4mm",),
    # The longest that it was trained for.
    max_seconds=30 * 60,
    recipe=_recipe,
    cut=_cut,
    read="{}",
)
