"""Voxtral TTS in a running engine equals mlx-audio's own.

mistral-common is a stand-in here: the tests do not install it.
"""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import Speak
from mlxctl.engine.speech import voxtral_tts
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import describe_model, read_model
from tests import tiny_models
from tests.engine.harness import running_engine

# Below the 64 tokens of the tiny model; 24 stands for the sound of the voice.
_TOKENIZER = """
class MistralTokenizer:
    @classmethod
    def from_file(cls, path):
        return cls()

    def encode_speech_request(self, request):
        self.tokens = [1, 24, 24, 24, 36, *(40 + ord(char) % 20 for char in request.input), 35, 25]
        return self
"""
_REQUEST = """
class SpeechRequest:
    def __init__(self, input, voice):
        self.input, self.voice = input, voice
"""
# A random model seldom ends by itself.
_MAX_FRAMES = 30


@pytest.fixture
def mistral_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a stand-in for the tokenizer."""
    for name, text in (
        ("tokens/tokenizers/mistral.py", _TOKENIZER),
        ("protocol/speech/request.py", _REQUEST),
        ("__init__.py", ""),
        # So old that transformers does not use it.
        ("../mistral_common-0.1.dist-info/METADATA", "Name: mistral-common\nVersion: 0.1\n"),
    ):
        file = tmp_path / "mistral_common" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(voxtral_tts, "VOXTRAL_TTS_MAX_FRAMES", _MAX_FRAMES)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "mistral_common"]:
        del sys.modules[name]


def spoken_by_mlx_audio(text: str, voice: str) -> Any:
    import mlx.core as mx
    from mlx_audio.tts.utils import load_model

    model: Any = load_model(tiny_models.speech("voxtral_tts"))
    mx.random.seed(4)
    # 0.08 seconds a frame, twelve of them.
    results = model.generate(text, voice=voice, max_tokens=_MAX_FRAMES, stream=True, streaming_interval=0.961)
    return np.concatenate([np.array(result.audio) for result in results]).clip(-1, 1)


@pytest.mark.usefixtures("mistral_common")
def test_samples_equal_those_of_mlx_audio_for_the_seed() -> None:
    facts = read_model(tiny_models.speech("voxtral_tts"))

    async def ask(voice: str) -> tuple[Any, list[int]]:
        async with running_engine(models=[facts.spec("voxtral")]) as client:
            command = partial(Speak, model="voxtral", text="Hello.", seed=4, voice=voice)
            sounds = [report async for report in client.stream_job(command) if report.samples]
            samples = np.frombuffer(b"".join(sound.samples for sound in sounds), "<f4")
            return samples, [sound.num_audio_tokens for sound in sounds]

    samples, frames = asyncio.run(ask("ada"))
    assert np.array_equal(samples, spoken_by_mlx_audio("Hello.", "ada"))
    assert np.abs(samples).max() > 0.001
    assert frames == [12, 12, 6]
    others, _ = asyncio.run(ask("bob"))
    assert not np.array_equal(samples, others)


def test_a_missing_tokenizer_package_is_named() -> None:
    with pytest.raises(BrokenModel, match=r"needs mistral-common \(pip install 'mistral-common\[audio\]'\)"):
        read_model(tiny_models.speech("voxtral_tts"))
    assert describe_model(tiny_models.speech("voxtral_tts")).detection.kind == "text-to-speech"
