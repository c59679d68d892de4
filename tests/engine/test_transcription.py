"""Transcription in a running engine equals the layers, unit by unit."""

import asyncio
import io
import wave
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import AudioWindow, EngineClient, TranscribedWindow
from mlxctl.engine.audio.transcriber import TokenRules, Transcriber
from mlxctl.engine.audio.workload import TranscriptionWorkload, open_transcriber
from mlxctl.engine.backend import CPU
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.wire.jobs import Transcribe
from mlxctl.engine.workload import DecodeLoad, WorkloadContext
from mlxctl.formats.adapters import create_adapter
from mlxctl.ir import TranscriptionRecipe, WhisperTokens
from mlxctl.ir.errors import BrokenModel, ModelInUse, SequenceFailed
from mlxctl.library import read_model
from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import result_of, running_engine
from tests.tiny_models.audio_samples import speech_audio

from .harness import finish, submit

FACTS = read_model(tiny_models.trained("whisper_words"))
ADAPTER = create_adapter(FACTS, name="whisper_words")


def recipe() -> TranscriptionRecipe:
    assert FACTS.transcription is not None
    return FACTS.transcription


def tokens() -> WhisperTokens:
    found = recipe().whisper
    assert found is not None
    return found


def samples_of(sound: bytes) -> bytes:
    """A WAV file of the voice as the engine is given it."""
    with wave.open(io.BytesIO(sound)) as reader:
        speech = np.frombuffer(reader.readframes(reader.getnframes()), np.int16)
        places = np.arange(0, len(speech) - 1, reader.getframerate() / 16_000)
    return (
        np.interp(places, np.arange(len(speech)), speech)
        .astype(np.int16)[: recipe().window_samples]
        .tobytes()
    )


@cache
def speech(sentence: str) -> bytes:
    """The samples of a sentence; the voice says none twice the same."""
    return samples_of(speech_audio(sentence, pause_seconds=0.3))


def window(sentence: str = SPOKEN_SENTENCES[0], **fields: Any) -> AudioWindow:
    return AudioWindow(model="whisper_words", samples=speech(sentence), **fields)


def hearing_engine(*others: str, path: Any = FACTS.path) -> AbstractAsyncContextManager[EngineClient]:
    return running_engine(*others, models=[replace(FACTS, path=path).spec("whisper_words")])


def written_by_the_layers(asked: AudioWindow) -> list[int]:
    """What the model transcribes greedily without caches, slices or engine.

    Every token is computed from the whole.
    """
    import mlx.core as mx
    from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram

    model, rules = open_transcriber(FACTS.path), TokenRules(tokens())
    sound: Any = np.zeros(recipe().window_samples, np.float32)
    given = np.frombuffer(asked.samples, np.int16)
    sound[: len(given)] = given / 32768
    languages = tokens().languages.values()
    encoded = model.encoder(
        log_mel_spectrogram(mx.array(sound), n_mels=model.dims.n_mels)[None].astype(model.dtype)
    )
    first: Any = np.array(model.decoder(mx.array([[tokens().start]]), encoded)[0][0, -1].astype(mx.float32))
    prompt = [tokens().start, max(languages, key=lambda token_id: first[token_id]), tokens().transcribe]
    written: list[int] = []
    while len(written) < tokens().context_length // 2:
        logits = np.array(model.decoder(mx.array([prompt + written]), encoded)[0][0, -1].astype(mx.float32))
        rules.apply(logits, written)
        token_id = int(logits.argmax())
        if token_id == tokens().end:
            break
        written.append(token_id)
    return written


@pytest.mark.parametrize("sentence", SPOKEN_SENTENCES)
def test_transcript_equals_greedy_decoding_of_the_layers(sentence: str) -> None:
    async def ask() -> TranscribedWindow:
        async with hearing_engine() as client:
            return await client.transcribe(window(sentence))

    written = asyncio.run(ask())
    assert written.token_ids == written_by_the_layers(window(sentence))
    assert written.language_id in tokens().languages.values()
    assert -1 < written.mean_logprob <= 0
    assert 0 <= written.no_speech < 0.5


def test_sampling_is_deterministic_for_the_same_window() -> None:
    async def ask() -> list[TranscribedWindow]:
        async with hearing_engine() as client:
            return [
                await client.transcribe(window(temperature=temperature)) for temperature in (5.0, 5.0, 0.0)
            ]

    first, again, greedy = asyncio.run(ask())
    assert first == again
    assert first.token_ids != greedy.token_ids


def test_a_window_is_heard_after_text_with_its_times() -> None:
    """As in OpenAI's reference, earlier text has time tokens."""
    first = tokens().first_time
    words = ADAPTER.vocabulary.encode(" our garden is green")
    timed = [first + 10, *words, first + 70]

    async def ask(client: EngineClient, before: list[int]) -> list[int]:
        written = (await client.transcribe(window(previous_ids=before))).token_ids
        return [token_id for token_id in written if token_id < tokens().end]

    async def ask_all() -> list[list[int]]:
        async with hearing_engine() as client:
            return [await ask(client, before) for before in ([], timed, timed * 3)]

    assert asyncio.run(ask_all()) == [ADAPTER.vocabulary.encode(" please open the window")] * 3


def test_prompt_holds_previous_text_language_and_task() -> None:
    listener, english = Transcriber(open_transcriber(FACTS.path), recipe()), tokens().languages["en"]
    prompt_ids = listener._prompt(window(previous_ids=[5, 6]), english)
    assert listener._prompt(window(task="translate"), english) == [
        tokens().start,
        english,
        tokens().translate,
    ]
    assert prompt_ids == [tokens().previous, 5, 6, tokens().start, english, tokens().transcribe]


def test_rows_decode_while_windows_are_transcribed() -> None:
    async def ask() -> tuple[list[int], list[int], list[TranscribedWindow]]:
        async with hearing_engine("endless") as client:
            alone = await finish(submit(client, "endless", list(range(1, 20)), max_tokens=24))
            jobs = [
                asyncio.create_task(client.transcribe(window(sentence))) for sentence in SPOKEN_SENTENCES * 8
            ]
            beside = await finish(submit(client, "endless", list(range(1, 20)), max_tokens=24))
            assert not all(job.done() for job in jobs), "the row waited for every window"
            return alone.token_ids, beside.token_ids, await asyncio.gather(*jobs)

    alone, beside, written = asyncio.run(ask())
    assert alone == beside
    assert [answer.token_ids for answer in written] == [
        written_by_the_layers(window(sentence)) for sentence in SPOKEN_SENTENCES
    ] * 8


def test_a_slice_beside_rows_holds_one_unit() -> None:
    reports: list[Any] = []
    context = WorkloadContext(
        settings=EngineSettings(),
        backend=CPU,
        memory=EngineMemory(backend=CPU, limit_bytes=1 << 40, prefix_cache_bytes=0),
        publish=reports.append,
        wake=lambda: None,
        decode_load=DecodeLoad(has_rows=lambda: True),
    )
    workload = TranscriptionWorkload(context)
    weights = result_of(workload.load(FACTS.spec("whisper_words")))
    workload.open_model(FACTS.spec("whisper_words"), weights)
    workload.take(Transcribe(job_id=1, window=window()))
    context.decode_load.observe(0.0, alone=False)
    while workload.has_work:
        workload.step()
    num_layers = FACTS.config["n_audio_layer"]
    *going_on, last = reports
    assert last.window is not None
    # The spectrum, every layer, the language, every token; the end is found with the last.
    assert len(reports) == 1 + num_layers + 1 + len(last.window.token_ids) + 1
    assert all(report.window is None and report.failure is None for report in going_on)


def test_cancelled_transcription_frees_the_model() -> None:
    async def ask() -> None:
        async with hearing_engine() as client:
            jobs = [asyncio.create_task(client.transcribe(window())) for _ in range(20)]
            await asyncio.sleep(0)
            with pytest.raises(ModelInUse):
                await client.unload("whisper_words")
            for job in jobs:
                job.cancel()
            await asyncio.wait(jobs)
            assert client.num_open == 0
            unloaded = await client.unload("whisper_words")
            assert unloaded.freed_bytes >= unloaded.weights_bytes * 0.9
            with pytest.raises(SequenceFailed, match="is not loaded"):
                await client.transcribe(window())

    asyncio.run(ask())


def test_missing_tensor_is_reported_in_one_line(tmp_path: Any) -> None:
    import shutil

    import mlx.core as mx

    broken = shutil.copytree(FACTS.path, tmp_path / "broken")
    weights: Any = mx.load(str(broken / "model.safetensors"))
    del weights["encoder.conv1.weight"]
    mx.save_safetensors(str(broken / "model.safetensors"), weights)

    async def start() -> None:
        async with hearing_engine(path=broken):
            pass

    with pytest.raises(BrokenModel, match="1 of its tensors are missing, such as 'encoder"):
        asyncio.run(start())
