"""Speech models in slices equal mlx-audio's own transcript."""

import asyncio
from collections.abc import Generator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.engine.audio.tekken import Tekken
from mlxctl.engine.audio.transcription_model import TranscriptionModel, family_module, open_model
from mlxctl.ir import ModelFacts, SpeakerTurn, TimedWord
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import read_model
from tests.engine.harness import running_engine
from tests.tiny_models.transcription_models import transcription_model

PARAKEETS = ("parakeet_tdt", "parakeet_rnnt", "parakeet_ctc")


@cache
def samples() -> bytes:
    """Five seconds of a rising and falling tone, with pauses."""
    times: Any = np.arange(5 * 16_000) / 16_000
    tone = np.sin(2 * np.pi * (200 + 150 * np.sin(times * 3)) * times) * 0.3
    sound = (tone + np.random.default_rng(1).normal(0, 0.05, len(times))) * (np.sin(times * 5) > -0.3)
    data: bytes = (sound * 32767).astype(np.int16).tobytes()
    return data


def mlx_audio_samples() -> Any:
    import mlx.core as mx

    return mx.array(np.frombuffer(samples(), np.int16).astype(np.float32) / 32768)


def mlx_audio_model(name: str) -> Any:
    from mlx_audio.stt.utils import load

    return load(transcription_model(name))


def facts(name: str) -> ModelFacts:
    return read_model(transcription_model(name))


def opened(name: str) -> TranscriptionModel:
    recipe = facts(name).transcription
    assert recipe is not None
    family, path = family_module(recipe.family), transcription_model(name)
    model: TranscriptionModel = family.open_model(open_model(path, family.PACKAGE), path)
    return model


def finished(work: Generator[None, None, TranscribedWindow]) -> tuple[TranscribedWindow, int]:
    """The transcript, and how many units of work it took."""
    num_units = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, num_units
        num_units += 1


def window(**fields: Any) -> AudioWindow:
    return AudioWindow(model="ears", samples=samples(), **fields)


@pytest.mark.parametrize("name", PARAKEETS)
def test_parakeet_equals_mlx_audio(name: str) -> None:
    import mlx.core as mx

    expected = mlx_audio_model(name).generate(mlx_audio_samples(), dtype=mx.float32)
    tokens = [token for sentence in expected.sentences for token in sentence.tokens]
    found, num_units = finished(opened(name).transcribe(window()))
    assert found.text.strip() == expected.text
    assert [token.id for token in tokens] == found.token_ids
    assert len(found.words) >= 5
    assert found.words[0].start == pytest.approx(tokens[0].start)
    assert found.words[-1].end == pytest.approx(max(token.end for token in tokens[-3:]))
    # Spectrogram, the layers with what is before them, and for a transducer every token.
    assert num_units >= (len(found.token_ids) if name != "parakeet_ctc" else 4)


@pytest.mark.parametrize(("language", "prompt"), [(None, ""), ("en", ""), ("de", "sail home")])
def test_qwen3_asr_equals_mlx_audio(language: str | None, prompt: str) -> None:
    names = {"en": "English", "de": "German", None: None}
    expected = mlx_audio_model("qwen3_asr").generate(
        mlx_audio_samples(), max_tokens=60, language=names[language], system_prompt=prompt or None
    )
    found, num_units = finished(opened("qwen3_asr").transcribe(window(language=language, prompt=prompt)))
    assert found.text.startswith(expected.text[:-1])
    assert len(expected.text) > 3
    assert num_units > len(found.token_ids)


def test_canary_equals_mlx_audio() -> None:
    import mlx.core as mx

    expected = mlx_audio_model("canary").generate(
        mlx_audio_samples(), language="de", dtype=mx.float32, max_tokens=1015
    )
    found, num_units = finished(opened("canary").transcribe(window(language="de")))
    assert found.text.strip() == expected.text
    assert num_units > len(found.token_ids) == expected.generation_tokens > 3


@pytest.mark.parametrize("language", [None, "ja"])
def test_sensevoice_equals_mlx_audio(language: str | None) -> None:
    expected = mlx_audio_model("sensevoice").generate(
        mlx_audio_samples(), language=language or "auto", use_itn=True
    )
    found, num_units = finished(opened("sensevoice").transcribe(window(language=language)))
    assert found.text == expected.text
    assert len(set(found.token_ids)) > 3
    # Features, five layers, the states before each of three lists of them, and the scores.
    assert num_units == 1 + 5 + 3 + 1


@pytest.mark.parametrize(("language", "named"), [(None, []), ("de", [297, 143, 98, 140, 141])])
def test_voxtral_equals_mlx_audio(language: str | None, named: list[int]) -> None:
    """The prompt is that of mistral-common's transcription request."""
    import mlx.core as mx
    from transformers import WhisperFeatureExtractor

    path = transcription_model("voxtral")
    expected = open_model(path, family_module("voxtral").PACKAGE)
    tokenizer = Tekken(path)
    extractor = WhisperFeatureExtractor.from_pretrained(str(path))

    def request(audio: Any, **_: Any) -> dict[str, Any]:
        features = extractor(np.array(audio), sampling_rate=16_000, return_tensors="np").input_features
        return {"input_ids": [[1, 3, 25, *[24] * 375, 4, *named, 34]], "input_features": features}

    expected._processor = SimpleNamespace(
        apply_transcription_request=request,
        tokenizer=SimpleNamespace(eos_token_ids=[2, 4, 11], encode=lambda _: []),
        decode=tokenizer.decode,
    )
    output = expected.generate(
        mlx_audio_samples(), max_tokens=189, generation_stream=mx.default_stream(mx.cpu)
    )
    found, num_units = finished(opened("voxtral").transcribe(window(language=language)))
    assert (found.text, len(found.token_ids)) == (output.text.strip(), output.generation_tokens)
    assert len(set(found.text)) > 3
    assert num_units > len(found.token_ids)


def test_voxtral_realtime_equals_mlx_audio() -> None:
    expected = mlx_audio_model("voxtral_realtime").generate(mlx_audio_samples())
    found, num_units = finished(opened("voxtral_realtime").transcribe(window()))
    assert (found.text, len(found.token_ids)) == (expected.text, expected.generation_tokens)
    assert len(set(found.token_ids)) > 3
    # Five parts of at most two seconds with the silence around, each of two layers.
    assert num_units > len(found.token_ids) + 5 * 2


def test_sampled_transcripts_are_the_same_for_the_same_window() -> None:
    model = opened("qwen3_asr")
    first, again, greedy = (
        finished(model.transcribe(window(temperature=temperature)))[0].token_ids
        for temperature in (1.0, 1.0, 0.0)
    )
    assert first == again != greedy


def test_forced_aligner_equals_mlx_audio() -> None:
    words = ["The", "sea,", "is", "calm", "and", "we", "sail."]
    expected = mlx_audio_model("qwen3_forced_aligner").generate(mlx_audio_samples(), " ".join(words))
    found, _ = finished(opened("qwen3_forced_aligner").transcribe(window(words=words)))
    assert found.words == [
        TimedWord(text=word, start=item.start_time, end=item.end_time)
        for word, item in zip(words, expected, strict=True)
    ]
    assert len({word.start for word in found.words}) > 1


def test_sortformer_equals_mlx_audio_in_windows_and_its_state_is_bounded() -> None:
    from mlx_audio.vad import load

    model, expected = opened("sortformer"), load(transcription_model("sortformer"))
    state, known = b"", expected.init_streaming_state()
    sizes, speakers = [], set()
    for start in range(0, 12 * 79_360, 79_360):
        part = np.resize(np.frombuffer(samples(), np.int16), start + 79_360)[start:]
        asked = AudioWindow(model="ears", samples=part.tobytes(), state=state)
        found, num_units = finished(model.transcribe(asked))
        output, known = expected.feed(part.astype(np.float32) / 32768, known)
        turns = expected._preds_to_segments(output.speaker_probs[:62], frame_duration=0.08)
        assert found.turns == [
            SpeakerTurn(speaker=turn.speaker, start=turn.start, end=turn.end) for turn in turns
        ]
        # The spectrogram, and for each of two lists of layers what is before them, and two layers.
        assert num_units == 1 + 2 * 3
        state, speakers = found.state, speakers | {turn.speaker for turn in found.turns}
        sizes.append(len(state))
    assert len(speakers) > 1
    assert sizes[-1] == sizes[-4]


def test_rows_decode_between_the_units_and_a_cancelled_window_ends() -> None:
    async def ask() -> str:
        spec = facts("parakeet_tdt").spec("ears")
        async with running_engine(models=[spec]) as client:
            jobs = [asyncio.create_task(client.transcribe(window())) for _ in range(5)]
            await asyncio.sleep(0)
            for job in jobs[1:]:
                job.cancel()
            found = await jobs[0]
            await asyncio.wait(jobs)
            assert client.num_open == 0
            await client.unload("ears")
            return found.text

    assert asyncio.run(ask()) == finished(opened("parakeet_tdt").transcribe(window()))[0].text


def test_missing_tensor_is_reported_in_one_line(tmp_path: Any) -> None:
    import shutil

    import mlx.core as mx

    broken = shutil.copytree(transcription_model("parakeet_ctc"), tmp_path / "broken")
    weights: Any = mx.load(str(broken / "model.safetensors"))
    weights.pop(min(weights))
    mx.save_safetensors(str(broken / "model.safetensors"), weights)

    async def start() -> None:
        async with running_engine(models=[read_model(broken).spec("ears")]):
            pass

    with pytest.raises(BrokenModel, match="1 of its tensors are missing"):
        asyncio.run(start())
