"""Gemma 3n, 4 and 4 unified: spectrograms, or samples.

Those of a Universal Speech Model, as by `Gemma3nAudioFeatureExtractor` and `Gemma4AudioFeatureExtractor` of
transformers.
"""

from dataclasses import replace
from typing import Any

from mlxctl.formats.audio.family import AudioCut, AudioFamily, AudioFiles, audio_token_id
from mlxctl.formats.audio.spectrogram import HOP, hann, mel_filters, spectra
from mlxctl.formats.vision.family import whole
from mlxctl.ir import AudioRecipe

_MAX_SECONDS = 30
# Samples are padded to a multiple of this.
_BLOCK = 128
_PREEMPHASIS = 0.97
_SAMPLES_PER_TOKEN = 640


def _gemma3n_recipe(files: AudioFiles) -> AudioRecipe:
    files.check(
        feature_size=128, sampling_rate=16_000, frame_length=512, hop_length=HOP, fft_length=1024,
        min_frequency=125.0, max_frequency=7600.0, preemphasis=_PREEMPHASIS, mel_floor=1e-5,
    )  # fmt: skip
    num_tokens = whole(files.config, "audio_soft_tokens_per_image", usual=188)
    return AudioRecipe(
        family="gemma3n", audio_token_id=audio_token_id(files), sizes={"num_tokens": num_tokens}
    )


def _gemma3n_cut(samples: Any, recipe: AudioRecipe) -> AudioCut:
    import numpy as np

    def mels(frames: Any) -> Any:
        # Pre-emphasis as in HTK: the first sample of a frame has none before it.
        sharpened = np.concatenate(
            [frames[:, :1] * (1 - _PREEMPHASIS), frames[:, 1:-1] - _PREEMPHASIS * frames[:, :-2]], axis=1
        )
        spectrum = np.abs(np.fft.rfft(sharpened * hann(512), n=1024))
        return np.log(np.maximum(spectrum @ mel_filters(1024, 125.0, 7600.0), 1e-5))

    padded = np.pad(samples, (0, -len(samples) % _BLOCK))
    # The embedding of its last token is in the audio part, so it belongs to the audio.
    return AudioCut(
        layout=[recipe.sizes["num_tokens"], "<end_of_audio>"], features=spectra(padded, 513, mels)
    )


def _gemma4_recipe(files: AudioFiles) -> AudioRecipe:
    files.check(
        feature_size=128, sampling_rate=16_000, frame_length=320, hop_length=HOP, fft_length=512,
        min_frequency=0.0, max_frequency=8000.0, preemphasis=0.0, mel_floor=1e-3,
    )  # fmt: skip
    most = whole(files.processor, "audio_seq_length", usual=750)
    return AudioRecipe(
        family="gemma4", audio_token_id=audio_token_id(files), sizes={"audio_seq_length": most}
    )


def _gemma4_cut(samples: Any, recipe: AudioRecipe) -> AudioCut:
    import numpy as np

    def mels(frames: Any) -> Any:
        spectrum = np.abs(np.fft.rfft(frames[:, :-1] * hann(320), n=512))
        return np.log(spectrum @ mel_filters(512, 0.0, 8000.0) + 1e-3)

    # Half a frame of silence before the audio. Padding after it would be masked.
    features = spectra(np.pad(samples, (160, 0)), 321, mels)
    # Two convolutions of stride 2. mlx-vlm counts milliseconds instead, and may add a token without audio.
    num_tokens = -(-len(features) // 4)
    return AudioCut(layout=[min(num_tokens, recipe.sizes["audio_seq_length"])], features=features)


def _unified_recipe(files: AudioFiles) -> AudioRecipe:
    files.check(sampling_rate=16_000, audio_samples_per_token=_SAMPLES_PER_TOKEN)
    return AudioRecipe(family="gemma4_unified", audio_token_id=audio_token_id(files))


def _unified_cut(samples: Any, _: AudioRecipe) -> AudioCut:
    import numpy as np

    features = np.pad(samples, (0, -len(samples) % _SAMPLES_PER_TOKEN)).reshape(-1, _SAMPLES_PER_TOKEN)
    return AudioCut(layout=[len(features)], features=features)


# Its template trims messages, so the empty lines around audio are added later, as in its own processor.
GEMMA3N = AudioFamily(
    name="gemma3n",
    model_types=("gemma3n",),
    max_seconds=_MAX_SECONDS,
    recipe=_gemma3n_recipe,
    cut=_gemma3n_cut,
    read="\n\n<start_of_audio>{}\n\n",
    tokens=("<start_of_audio>", "<end_of_audio>"),
)
GEMMA4 = AudioFamily(
    name="gemma4",
    model_types=("gemma4",),
    max_seconds=_MAX_SECONDS,
    recipe=_gemma4_recipe,
    cut=_gemma4_cut,
    read="<|audio>{}<audio|>",
    tokens=("<|audio>", "<audio|>"),
)
GEMMA4_UNIFIED = replace(
    GEMMA4,
    name="gemma4_unified",
    model_types=("gemma4_unified",),
    recipe=_unified_recipe,
    cut=_unified_cut,
)
