"""Speech in a running engine equals mlx-audio's own, whatever else runs."""

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import EngineClient, Speak
from mlxctl.engine.backend import CPU
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.speech.families import FAMILIES
from mlxctl.engine.speech.workload import SpeechWorkload
from mlxctl.engine.workload import DecodeLoad, WorkloadContext
from mlxctl.ir import ModelFacts, ReferenceAudio
from mlxctl.ir.errors import BrokenModel, ModelInUse, SequenceFailed
from mlxctl.library import read_model
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, result_of, running_engine, submit

TEXTS = ("Hello world.", "The quick brown fox jumps over the lazy dog.", "Hello the lazy world!")
STREAMING = {"stream": True, "streaming_interval": 0.32}


@cache
def facts_of(name: str) -> ModelFacts:
    return read_model(tiny_models.speech(name))


def job(name: str, text: str = TEXTS[1], *, seed: int = 11, **fields: Any) -> dict[str, Any]:
    recipe = facts_of(name).speech
    assert recipe is not None
    instructions = "Be brave." if recipe.follows_instructions else None
    given = {"voice": recipe.default_voice, "instructions": instructions, "reference": None, **fields}
    return {"model": name, "text": text, "seed": seed, **given}


def speaking_engine(*names: str, others: tuple[str, ...] = ()) -> AbstractAsyncContextManager[EngineClient]:
    return running_engine(*others, models=[facts_of(name).spec(name) for name in names])


async def speak(client: EngineClient, asked: dict[str, Any]) -> Any:
    """All samples of a text."""
    reports = [report async for report in client.stream_job(partial(Speak, **asked))]
    assert [report.is_last for report in reports] == [False] * (len(reports) - 1) + [True]
    return np.frombuffer(b"".join(report.samples for report in reports), "<f4")


def spoken_by_mlx_audio(asked: dict[str, Any]) -> Any:
    """The samples of mlx-audio's `generate` for the seed."""
    import mlx.core as mx
    from mlx_audio.tts.utils import load_model

    facts = facts_of(asked["model"])
    assert facts.speech is not None
    if facts.speech.family == "soprano":
        # mlx-audio's loader knows the sizes of two published models only.
        model, streaming = FAMILIES["soprano"].open_model(facts.path), {}
    else:
        model, streaming = load_model(facts.path), STREAMING
    mx.random.seed(asked["seed"])
    if (recording := asked["reference"]) is not None:
        samples = mx.array(np.frombuffer(recording.samples, "<f4"))
        streaming = {**streaming, "ref_audio": samples, "ref_text": recording.text}
    results = model.generate(asked["text"], voice=asked["voice"], instruct=asked["instructions"], **streaming)
    return np.concatenate([np.array(result.audio) for result in results]).clip(-1, 1)


@pytest.mark.parametrize("name", tiny_models.SPEECH_NAMES)
def test_samples_equal_those_of_mlx_audio_for_the_seed(name: str) -> None:
    async def ask() -> tuple[Any, Any]:
        async with speaking_engine(name) as client:
            return await speak(client, job(name)), await speak(client, job(name, seed=12))

    samples, others = asyncio.run(ask())
    assert np.array_equal(samples, spoken_by_mlx_audio(job(name)))
    assert np.abs(samples).max() > 0.001
    assert not np.array_equal(samples, others)


@pytest.mark.parametrize("name", ["qwen3_tts_base", "pocket_tts"])
def test_a_cloned_voice_equals_that_of_mlx_audio(name: str) -> None:
    recording = np.random.default_rng(0).normal(0, 0.1, 4800).astype("<f4")
    reference = ReferenceAudio(samples=recording.tobytes(), sample_rate=24_000, text="Hello dog.")
    asked = job(name, voice=None, reference=reference)

    async def ask() -> tuple[Any, Any]:
        async with speaking_engine(name) as client:
            return await speak(client, asked), await speak(client, job(name))

    cloned, own = asyncio.run(ask())
    assert np.array_equal(cloned, spoken_by_mlx_audio(asked))
    assert not np.array_equal(cloned, own)


@pytest.mark.parametrize("name", ["qwen3_tts", "pocket_tts"])
def test_requests_in_parallel_say_what_they_say_alone(name: str) -> None:
    recipe = facts_of(name).speech
    assert recipe is not None
    voices = [*recipe.voices, None, None][:2]
    asked = [job(name, text, seed=seed, voice=voices[seed % 2]) for seed, text in enumerate(TEXTS)]

    async def ask() -> tuple[list[Any], list[Any]]:
        async with speaking_engine(name) as client:
            alone = [await speak(client, each) for each in asked]
            return alone, await asyncio.gather(*(speak(client, each) for each in asked))

    alone, together = asyncio.run(ask())
    assert [samples.tolist() for samples in together] == [samples.tolist() for samples in alone]
    assert len({samples.tobytes() for samples in alone}) == len(asked)


def test_rows_decode_while_texts_are_spoken() -> None:
    async def ask() -> tuple[list[int], list[int], int]:
        async with speaking_engine("qwen3_tts", others=("endless",)) as client:
            alone = await finish(submit(client, "endless", list(range(1, 20)), max_tokens=24))
            jobs = [asyncio.create_task(speak(client, job("qwen3_tts", seed=seed))) for seed in range(12)]
            beside = await finish(submit(client, "endless", list(range(1, 20)), max_tokens=24))
            num_open = sum(not task.done() for task in jobs)
            for task in jobs:
                task.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            return alone.token_ids, beside.token_ids, num_open

    alone, beside, num_open = asyncio.run(ask())
    assert alone == beside
    assert num_open > 0, "the row waited for every text"


def loaded_workload(name: str, *, limit_bytes: int = 1 << 40) -> tuple[SpeechWorkload, list[Any]]:
    """The workload with a model, beside rows, and what it publishes."""
    reports: list[Any] = []
    context = WorkloadContext(
        settings=EngineSettings(),
        backend=CPU,
        memory=EngineMemory(backend=CPU, limit_bytes=limit_bytes, prefix_cache_bytes=0),
        publish=reports.append,
        wake=lambda: None,
        decode_load=DecodeLoad(has_rows=lambda: True),
    )
    workload, spec = SpeechWorkload(context), facts_of(name).spec(name)
    workload.open_model(spec, result_of(workload.load(spec)))
    context.decode_load.observe(0.0, alone=False)
    return workload, reports


def test_a_slice_beside_rows_holds_one_unit() -> None:
    workload, reports = loaded_workload("pocket_tts")
    workload.take(Speak(job_id=1, **job("pocket_tts")))
    num_steps = 0
    while workload.has_work:
        workload.step()
        num_steps += 1
        assert len(reports) == num_steps
    assert reports[-1].is_last
    assert num_steps > 3


def test_cancelled_speech_frees_the_model() -> None:
    async def ask() -> None:
        async with speaking_engine("qwen3_tts") as client:
            jobs = [asyncio.create_task(speak(client, job("qwen3_tts", seed=seed))) for seed in range(12)]
            await asyncio.sleep(0)
            with pytest.raises(ModelInUse):
                await client.unload("qwen3_tts")
            for each in jobs:
                each.cancel()
            await asyncio.wait(jobs)
            assert client.num_open == 0
            unloaded = await client.unload("qwen3_tts")
            assert unloaded.freed_bytes >= unloaded.weights_bytes * 0.9
            with pytest.raises(SequenceFailed, match="is not loaded"):
                await speak(client, job("qwen3_tts"))

    asyncio.run(ask())


def test_speech_that_can_never_fit_is_refused() -> None:
    workload, reports = loaded_workload("pocket_tts", limit_bytes=100_000)
    workload.take(Speak(job_id=1, **job("pocket_tts")))
    assert not workload.has_work
    assert "speech needs 0.51 MB, but the memory limit leaves 0.10 MB" in reports[0].failure


@pytest.mark.parametrize(
    ("name", "file", "tensor"),
    [
        ("qwen3_tts", "model.safetensors", "talker.codec_head.weight"),
        ("qwen3_tts", "speech_tokenizer/model.safetensors", "decoder.pre_conv.conv.weight"),
        ("soprano", "model.safetensors", "decoder.head.out.weight"),
        ("pocket_tts", "model.safetensors", "speaker_proj_weight"),
    ],
)
def test_missing_tensor_is_reported_in_one_line(name: str, file: str, tensor: str, tmp_path: Path) -> None:
    import mlx.core as mx

    broken = shutil.copytree(facts_of(name).path, tmp_path / "broken")
    weights: Any = mx.load(str(broken / file))
    del weights[tensor]
    mx.save_safetensors(str(broken / file), weights)

    async def start() -> None:
        async with running_engine(models=[read_model(broken).spec(name)]):
            pass

    with pytest.raises(BrokenModel, match="1 of its tensors are missing, such as '"):
        asyncio.run(start())
