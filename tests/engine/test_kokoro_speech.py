"""Kokoro in a running engine equals mlx-audio's own.

English is read by dictionaries. Those of misaki are replaced here: the tests do not install it, which
Python 3.13 cannot.
"""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import Speak
from mlxctl.engine.speech.english_lexicon import open_lexicon
from mlxctl.engine.speech.english_phonemes import MAX_PHONEMES, phonemes_of
from mlxctl.inference.speech.spoken_text import check_request
from mlxctl.ir import SpeechRequest
from mlxctl.ir.errors import BrokenModel, InvalidRequest
from mlxctl.library import describe_model, read_model
from tests import tiny_models
from tests.engine.harness import running_engine

_WORDS = {
    "a": "A", "A": "ˈA", "an": "æn", "and": "ænd", "apple": "ˈæpᵊl", "B": "bˈi", "bake": "bˈAk",
    "box": "bˈɑks", "cent": "sˈɛnt", "cry": "kɹˈI", "dollar": "dˈɑləɹ", "fifty": "fˈɪfti",
    "fire": "fˈIəɹ", "five": "fˈIv", "for": "fɔɹ", "G": "ʤˈi", "hundred": "hˈʌndɹəd", "I": "ˈI",
    "in": "ɪn", "nineteen": "nˌIntˈin", "ninety": "nˈIndi", "of": "ʌv", "open": "ˈOpᵊn", "P": "pˈi",
    "place": "plˈAs", "point": "pˈYnt", "record": {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"},
    "the": "ði", "third": "θˈɜɹd", "thousand": "θˈWzᵊnd", "three": "θɹˈi", "to": "tu",
    "twenty": "twˈɛnti", "two": "tˈu", "wait": "wˈAt", "window": "wˈɪndO", "percent": "pəɹsˈɛnt",
    "nine": "nˈIn", "one": "wˈʌn", "oh": "ˈO", "sit": "sˈɪt",
}  # fmt: skip


@pytest.fixture
def misaki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a stand-in for the dictionaries."""
    data = tmp_path / "misaki" / "data"
    data.mkdir(parents=True)
    (tmp_path / "misaki" / "__init__.py").touch()
    for name in ("us_gold", "us_silver", "gb_gold", "gb_silver"):
        words = _WORDS if name == "us_gold" else {"hello": "həlˈQ"} if name == "gb_gold" else {}
        (data / f"{name}.json").write_text(json.dumps(words))
    monkeypatch.syspath_prepend(tmp_path)
    open_lexicon.cache_clear()
    yield
    open_lexicon.cache_clear()


def spoken_by_mlx_audio(phonemes: str, voice: str, speed: float) -> Any:
    import mlx.core as mx
    from mlx_audio.tts.models.kokoro.voice import load_voice_tensor
    from mlx_audio.tts.utils import load_model

    path = tiny_models.speech("kokoro")
    model: Any = load_model(path, model_type="kokoro")
    pack = load_voice_tensor(str(path / "voices" / f"{voice}.safetensors"))
    mx.random.seed(4)
    return np.array(model(phonemes, pack[len(phonemes) - 1], speed)[0]).clip(-1, 1)


@pytest.mark.usefixtures("misaki")
def test_samples_equal_those_of_mlx_audio_for_the_phonemes() -> None:
    facts = read_model(tiny_models.speech("kokoro"))
    assert facts.speech is not None
    assert facts.speech.voices == ["af_ada", "bm_bob"]

    async def ask() -> tuple[Any, Any]:
        async with running_engine(models=[facts.spec("kokoro")]) as client:

            async def speak(text: str, voice: str, speed: float) -> Any:
                command = partial(Speak, model="kokoro", text=text, seed=4, voice=voice, speed=speed)
                return np.frombuffer(
                    b"".join([report.samples async for report in client.stream_job(command)]), "<f4"
                )

            # Beside each other.
            return tuple(
                await asyncio.gather(speak("Open the.", "af_ada", 1.0), speak("Hello.", "bm_bob", 0.5))
            )

    american, british = asyncio.run(ask())
    assert np.array_equal(american, spoken_by_mlx_audio("ˈOpᵊn ðə.", "af_ada", 1.0))
    assert np.array_equal(british, spoken_by_mlx_audio("həlˈQ.", "bm_bob", 0.5))
    assert min(np.abs(american).max(), np.abs(british).max()) > 0.001


@pytest.mark.usefixtures("misaki")
@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("An apple for the box.", "ɐn ˈæpᵊl fɔɹ ðə bˈɑks."),
        ("The apple is what I wait for", "ði ˈæpᵊl"),
        ("I record a record.", "ˌI ɹəkˈɔɹd ɐ ɹˈɛkəɹd."),
        ("boxes, cries, baked, waited, baking, sitting", "bˈɑksᵻz, kɹˈIz, bˈAkt, wˈAɾᵻd"),
        ("$3.50, 1905, 22nd", "θɹˈi dˈɑləɹz ænd fˈɪfti sˈɛnts, nˌIntˈin ˈO fˈIv"),
        ("1,203.5%", "wˈʌn θˈWzᵊnd tˈu hˈʌndɹəd θɹˈi pˈYnt fˈIv pəɹsˈɛnt"),
        ("fireplace GPP “pläce”!", "fˈIəɹplˌAs ʤˌipˌipˈi “plˈAs”!"),
        ("Brine, phlox", "bɹˈIn, flˈɑks"),
        ("😀 你好 ...", ""),
    ],
)
def test_english_is_read_by_dictionary_and_rules(text: str, phonemes: str) -> None:
    read = "".join(phonemes_of(text, open_lexicon(british=False)))
    assert read.startswith(phonemes.replace("ɾ", "T"))
    assert bool(read) == bool(phonemes)


@pytest.mark.usefixtures("misaki")
def test_long_phonemes_are_cut_at_spaces() -> None:
    pieces = phonemes_of("1" * 300, open_lexicon(british=False))
    assert max(map(len, pieces)) <= MAX_PHONEMES
    assert "".join(pieces).replace(" ", "") == "wˈʌn" * 300


@pytest.mark.usefixtures("misaki")
def test_a_text_in_other_letters_is_refused() -> None:
    recipe = read_model(tiny_models.speech("kokoro")).speech
    assert recipe is not None
    assert check_request(SpeechRequest(model="kokoro", text="Hi 你好", speed=2.0), recipe).voice == "af_ada"
    with pytest.raises(InvalidRequest, match="reads Latin letters and digits") as refused:
        check_request(SpeechRequest(model="kokoro", text="你好"), recipe)
    assert refused.value.param == "input"


def test_missing_dictionaries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.state.installed.file_of", lambda name: None if name == "misaki" else Path())
    with pytest.raises(BrokenModel, match=r"needs misaki \(pip install 'mlxctl\[kokoro\]'\)"):
        read_model(tiny_models.speech("kokoro"))
    assert describe_model(tiny_models.speech("kokoro")).detection.kind == "text-to-speech"
