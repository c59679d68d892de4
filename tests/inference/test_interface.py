"""Local and remote inference give the same results through one interface."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.inference.interface import Inference
from mlxctl.inference.local import LocalInference
from mlxctl.inference.remote import RemoteInference
from mlxctl.ir import (
    EmbeddingRequest,
    GenerationRequest,
    SamplingOptions,
    SpeechRequest,
    TranscriptionRequest,
    text_message,
)
from mlxctl.library import demo
from mlxctl.server.wiring import build_services
from mlxctl.state.settings import PoolSettings, Settings
from tests import tiny_models
from tests.server.hosted import HostedServer, hosting
from tests.tiny_models.audio_samples import speech_audio

MODELS = (
    demo.MODEL_DIR,
    tiny_models.model("embedder"),
    tiny_models.trained("whisper_words"),
    tiny_models.speech("pocket_tts"),
)
REQUEST = GenerationRequest(
    model=demo.MODEL_DIR.name,
    messages=(text_message("user", "Hello! Who are you?"),),
    sampling=SamplingOptions(temperature=0.0),
    max_tokens=12,
)
TEXTS = EmbeddingRequest(model=MODELS[1].name, inputs=("Bread.", "The ferry leaves at noon."))

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    with hosting(None, *(f"--model={path}" for path in MODELS)) as running:
        yield running


def both(server: HostedServer, use: Callable[[Inference], Awaitable[Result]]) -> tuple[Result, Result]:
    """Return the results of a local engine and of a server.

    Both have the same models.
    """

    async def local() -> Result:
        services = build_services(Settings(pool=PoolSettings(models=MODELS)), in_process=True)
        await services.inference.open()
        try:
            await services.inference.wait_ready()
            return await use(LocalInference(services.inference))
        finally:
            await services.inference.close(drain_seconds=0.0)
            services.close()

    async def remote() -> Result:
        inference = RemoteInference(server.url)
        try:
            await inference.wait_ready()
            return await use(inference)
        finally:
            await inference.close()

    return asyncio.run(local()), asyncio.run(remote())


def test_generation_and_token_count_agree(server: HostedServer) -> None:
    async def use(inference: Inference) -> tuple[list[str], str, int, int]:
        stream = await inference.generate(REQUEST)
        result = await stream.result()
        stream.cancel()
        names = [model.name for model in inference.models()]
        return names, result.text, result.usage.num_prompt_tokens, await inference.count_tokens(REQUEST)

    local, remote = both(server, use)
    assert local == remote
    assert local[2] == local[3] > 0


def test_embeddings_agree(server: HostedServer) -> None:
    local, remote = both(server, lambda inference: inference.embed(TEXTS))
    assert local.num_prompt_tokens == remote.num_prompt_tokens
    for one, other in zip(local.vectors, remote.vectors, strict=True):
        assert array("f", one) == pytest.approx(array("f", other), abs=1e-5)


def test_transcriptions_agree(server: HostedServer) -> None:
    audio = AudioFile(speech_audio("Our garden is green."))

    def use(inference: Inference) -> Awaitable[str]:
        return transcribed(inference, audio)

    local, remote = both(server, use)
    assert local == remote
    assert "garden" in local


async def transcribed(inference: Inference, audio: AudioFile) -> str:
    request = TranscriptionRequest(
        model="whisper_words", num_samples=audio.num_samples, read_window=audio.read_window
    )
    return (await inference.transcribe(request)).text


def test_speech_agrees(server: HostedServer) -> None:
    request = SpeechRequest(model=MODELS[3].name, text="Hello world. Hello again, lazy dog.", seed=3)

    async def use(inference: Inference) -> bytes:
        return b"".join([chunk.samples async for chunk in inference.speak(request)])

    local, remote = (array("f", samples) for samples in both(server, use))
    assert len(local) == len(remote) > 0
    assert local == pytest.approx(remote, abs=1e-4)


def test_stats_count_the_same_fields(server: HostedServer) -> None:
    async def use(inference: Inference) -> tuple[set[str], str]:
        await (await inference.generate(REQUEST)).result()
        stats = await inference.stats()
        return set(stats.counters), stats.requests[0].state

    (local, local_state), (remote, remote_state) = both(server, use)
    assert {"num_generated_tokens", "cache_bytes"} <= local & remote
    assert local_state == remote_state == "finished"
