"""Speech of a whole text by a local engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
import pytest

from mlxctl.inference.local import LocalInference
from mlxctl.inference.service import InferenceService
from mlxctl.inference.speech import check_request
from mlxctl.ir import ReferenceAudio, SpeechChunk, SpeechRecipe, SpeechRequest
from mlxctl.ir.errors import InvalidRequest, RequestCancelled, UnknownVoice
from mlxctl.server.wiring import build_services
from mlxctl.state.settings import PoolSettings, Settings
from tests import tiny_models

Result = TypeVar("Result")

TEXT = "Hello world, hello lazy dog and fox. The quick brown fox jumps over the lazy dog."
SENTENCES = ("Hello world, hello lazy dog and fox.", "The quick brown fox jumps over the lazy dog.")
RECIPE = SpeechRecipe(
    family="qwen3_tts", sample_rate=24_000, voices=["Ada", "bob"], default_voice="Ada", languages=["english"]
)
ASKED = SpeechRequest(model="m", text="Hello.")
RECORDING = ReferenceAudio(samples=bytes(8), sample_rate=24_000, text="Hello.")


def using(use: Callable[[InferenceService], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        models = tuple(tiny_models.speech(name) for name in ("soprano", "pocket_tts"))
        services = build_services(Settings(pool=PoolSettings(models=models)), in_process=True)
        await services.inference.open()
        try:
            await services.inference.wait_ready()
            return await use(services.inference)
        finally:
            await services.inference.close(drain_seconds=0.0)
            services.close()

    return asyncio.run(run())


def asked(service: InferenceService, text: str, **fields: Any) -> SpeechRequest:
    name = next(model.name for model in LocalInference(service).models() if "pocket" in model.facts.path.name)
    return SpeechRequest(model=name, text=text, seed=5, **fields)


async def collect(chunks: AsyncIterator[SpeechChunk]) -> list[SpeechChunk]:
    return [chunk async for chunk in chunks]


async def chunks_of(service: InferenceService, request: SpeechRequest) -> list[SpeechChunk]:
    return await collect(LocalInference(service).speak(request))


def test_sentences_follow_each_other_and_the_last_chunk_is_empty() -> None:
    async def use(service: InferenceService) -> tuple[list[SpeechChunk], list[list[SpeechChunk]]]:
        whole = await chunks_of(service, asked(service, TEXT))
        parts = [
            await chunks_of(service, msgspec.structs.replace(asked(service, sentence), seed=5 + place))
            for place, sentence in enumerate(SENTENCES)
        ]
        return whole, parts

    whole, parts = using(use)
    assert whole == [chunk for part in parts for chunk in part if not chunk.is_last] + [whole[-1]]
    assert whole[-1].is_last
    assert sum(chunk.num_audio_tokens for chunk in whole) == len(whole) - 1


def test_closing_or_cancelling_ends_the_work() -> None:
    async def use(service: InferenceService) -> list[str]:
        async with aclosing(LocalInference(service).speak(asked(service, TEXT * 50))) as chunks:
            await anext(chunks)
        async with aclosing(LocalInference(service).speak(asked(service, TEXT * 50))) as chunks:
            await anext(chunks)
            await LocalInference(service).cancel("2")
            with pytest.raises(RequestCancelled):
                await collect(chunks)
        stats = await LocalInference(service).stats()
        return [view.state for view in stats.requests]

    assert using(use) == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("request_fields", "recipe_fields", "param"),
    [
        ({"text": " \n"}, {}, "input"),
        ({"text": "a" * 40_000}, {}, "input"),
        ({"speed": 1.5}, {}, "speed"),
        ({"instructions": "Whisper."}, {}, "instructions"),
        ({"language": "klingon"}, {}, "language"),
        ({"language": "en"}, {"languages": []}, "language"),
        ({"reference": RECORDING}, {}, "reference"),
        ({"reference": RECORDING}, {"clones_voices": True, "sample_rate": 16_000}, "reference"),
        ({}, {"requires": "reference"}, "reference"),
        ({}, {"requires": "instructions", "follows_instructions": True}, "instructions"),
        ({"voice": "eve"}, {}, "voice"),
    ],
)
def test_what_the_model_cannot_do_is_refused_by_name(
    request_fields: dict[str, Any], recipe_fields: dict[str, Any], param: str
) -> None:
    request = msgspec.structs.replace(ASKED, **request_fields)
    with pytest.raises(InvalidRequest) as caught:
        check_request(request, msgspec.structs.replace(RECIPE, **recipe_fields))
    assert caught.value.param == param


def test_voice_and_language_become_the_names_of_the_model() -> None:
    checked = check_request(msgspec.structs.replace(ASKED, voice="ADA", language="EN"), RECIPE)
    assert (checked.voice, checked.language) == ("Ada", "english")
    assert checked.seed is not None
    with pytest.raises(UnknownVoice, match="did you mean 'bob'"):
        check_request(msgspec.structs.replace(ASKED, voice="bobb"), RECIPE)
