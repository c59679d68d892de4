"""Audio of a prompt: features as the models' own, places, bad files."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.formats.adapters.media.audio_clips import MAX_CLIPS
from mlxctl.formats.audio.gemma import GEMMA3N, GEMMA4, GEMMA4_UNIFIED
from mlxctl.formats.audio.qwen_omni import FAMILY as QWEN_OMNI
from mlxctl.ir import AudioPart, AudioRecipe, GenerationRequest, ImagePart, Message, TextPart
from mlxctl.ir.errors import ContextTooLong, InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models
from tests.tiny_models.audio_samples import noise, silence, wav

from .test_images import image

RECIPE = AudioRecipe(family="any", audio_token_id=1, sizes={"num_tokens": 188, "audio_seq_length": 750})
TEXT = TextPart(text="What is said?")
PARAM = "messages[0].content[1].input_audio"


def clip(data: bytes, kind: str = "audio/wav") -> AudioPart:
    return AudioPart(data=data, media_type=kind, param=PARAM)


@cache
def adapter(name: str) -> ModelAdapter:
    return create_adapter(read_model(tiny_models.model(name)), name=name)


def request(*parts: AudioPart | ImagePart | TextPart) -> Any:
    return GenerationRequest(model="m", messages=(Message(role="user", parts=parts),), max_tokens=4)


def samples(num: int) -> Any:
    return np.random.default_rng(num).normal(scale=0.1, size=num).astype(np.float32)


def gemma3n(heard: Any) -> Any:
    from transformers.models.gemma3n.feature_extraction_gemma3n import Gemma3nAudioFeatureExtractor

    return Gemma3nAudioFeatureExtractor()([heard])["input_features"][0]


def gemma4(heard: Any) -> Any:
    from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor

    read = Gemma4AudioFeatureExtractor()([heard])
    return read["input_features"][0][np.array(read["input_features_mask"][0])]


def unified(heard: Any) -> Any:
    from mlx_vlm.models.gemma4_unified.processing_gemma4_unified import Gemma4UnifiedAudioFeatureExtractor

    return Gemma4UnifiedAudioFeatureExtractor()([heard])["input_features"][0]


def whisper(heard: Any) -> Any:
    from transformers.models.whisper.feature_extraction_whisper import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=128)
    return extractor(heard, sampling_rate=16_000, padding=True, truncation=False)["input_features"][0].T


@pytest.mark.parametrize(
    ("family", "reference", "num_tokens"),
    [
        (GEMMA3N, gemma3n, [188, 188]),
        (GEMMA4, gemma4, [3, 26]),
        (GEMMA4_UNIFIED, unified, [3, 26]),
        (QWEN_OMNI, whisper, [2, 14]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_features_equal_the_models_own(family: Any, reference: Any, num_tokens: list[int]) -> None:
    for num, tokens in zip((1600, 16_161), num_tokens, strict=True):
        cut, wanted = family.cut(samples(num), RECIPE), reference(samples(num))
        assert cut.features.shape == wanted.shape
        assert np.abs(cut.features - wanted).max() < 1e-3
        assert cut.layout[0] == tokens


def test_audio_and_images_keep_their_order() -> None:
    prompt = adapter("gemma4_seer").prepare_input(request(clip(noise(1.0)), image(), TEXT, clip(noise(0.5))))
    places = [(each.is_audio, each.start, each.num_tokens) for each in prompt.images]
    assert [(is_audio, num) for is_audio, _, num in places] == [(True, 25), (False, 16), (True, 13)]
    recipe = adapter("gemma4_seer").facts
    assert recipe.audio is not None
    assert recipe.vision is not None
    for is_audio, start, num in places:
        cell = recipe.audio.audio_token_id if is_audio else recipe.vision.image_token_id
        assert list(prompt.token_ids[start : start + num]) == [cell] * num


def test_channels_are_mixed_and_equal_audio_has_equal_digests() -> None:
    one = np.frombuffer(noise(0.5)[44:], "<i2")
    eight = wav(np.repeat(one[:, None], 8, axis=1).astype("<i2").tobytes(), num_channels=8)
    prompts = [
        adapter("gemma4_seer").prepare_input(request(clip(data), TEXT)) for data in (noise(0.5), eight)
    ]
    assert prompts[0].token_ids == prompts[1].token_ids
    assert prompts[0].images[0].digest == prompts[1].images[0].digest


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (clip(b"no sound"), "is no supported audio file; send WAV, FLAC, MP3 or Ogg"),
        (clip(b"RIFF\x04\0\0\0WAVE"), "file is damaged"),
        (clip(wav(b"")), "has 0.00 seconds; at least 0.1 are needed"),
        (clip(silence(30.5)), "is longer than the 30 seconds that this model hears; send it in parts"),
        (clip(silence(1), "audio/mp3"), "is audio/wav, but the request says audio/mp3"),
    ],
    ids=["text", "broken", "no samples", "too long", "another format"],
)  # fmt: skip
def test_bad_audio_is_refused_with_its_place(sent: AudioPart, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem) as refused:
        adapter("gemma4_seer").prepare_input(request(TEXT, sent))
    assert refused.value.param == PARAM
    assert PARAM in str(refused.value)


def test_audio_with_an_endless_header_is_read_to_its_end() -> None:
    data = bytearray(noise(0.5))
    data[40:44] = data[4:8] = b"\xff\xff\xff\xff"
    prompt = adapter("gemma4_seer").prepare_input(request(clip(bytes(data)), TEXT))
    assert prompt.images[0].num_tokens == 13


def test_more_audio_than_the_context_is_refused() -> None:
    known = read_model(tiny_models.model("qwen3_omni_moe"))
    short = create_adapter(replace(known, context_length=100), name="short")
    with pytest.raises(ContextTooLong):
        short.prepare_input(request(clip(silence(10)), TEXT))
    with pytest.raises(InvalidRequest, match="a request may have 64"):
        adapter("gemma4_seer").prepare_input(request(*[clip(silence(1))] * (MAX_CLIPS + 1)))


def test_audio_that_a_model_does_not_take_is_refused() -> None:
    text_only = create_adapter(read_model(tiny_models.model("qwen3")), name="text")
    with pytest.raises(InvalidRequest, match="this model cannot take audio") as refused:
        text_only.prepare_input(request(TEXT, clip(silence(1))))
    assert refused.value.param == PARAM
    answered = replace(
        request(TEXT),
        messages=(Message(role="assistant", parts=(clip(silence(1)),)), Message(role="user", parts=(TEXT,))),
    )
    with pytest.raises(InvalidRequest, match="audio in a user's messages only"):
        adapter("gemma4_seer").prepare_input(answered)


def test_model_without_a_token_for_audio_says_so() -> None:
    facts = read_model(tiny_models.model("gemma4_seer"))
    assert facts.audio is not None
    deaf = create_adapter(replace(facts, audio=replace(facts.audio, audio_token_id=5)), name="deaf")
    assert (deaf.verdict.takes_audio, deaf.verdict.takes_images) == (False, True)
    assert "takes images; its tokenizer has no token 5 for audio" in deaf.verdict.summary()
