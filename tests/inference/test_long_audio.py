"""Long audio in windows, and aligned words. Results are scripted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.formats.adapters import create_adapter
from mlxctl.inference.call_context import operator_call
from mlxctl.inference.preparation import PreparationPool
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.screening import Screened
from mlxctl.inference.service import InferenceService
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription import helpers_of, transcribe
from mlxctl.inference.transcription.words import alignable_words, segments_of, words_of_tokens
from mlxctl.ir import TimedWord, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.library import read_model
from tests.tiny_models.transcription_models import transcription_model

RATE = 16_000
QWEN = create_adapter(read_model(transcription_model("qwen3_asr")), name="qwen3_asr")


class ScriptedEngine:
    """Answers windows with texts, and words to align with a second each."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.windows: list[AudioWindow] = []

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        self.windows.append(window)
        if window.words:
            words = [TimedWord(text=word, start=at, end=at + 1) for at, word in enumerate(window.words)]
            return TranscribedWindow(words=words)
        return TranscribedWindow(text=self.texts.pop(0), language="de")


def run(engine: ScriptedEngine, sound: Any, *, aligned: bool = False, **fields: Any) -> TranscriptionResult:
    async def ask() -> TranscriptionResult:
        preparation = PreparationPool()
        try:
            session = ModelSession(engine, QWEN, name="qwen3_asr")  # type: ignore[arg-type]
            return await transcribe(
                TranscriptionRequest(
                    model="qwen3_asr",
                    num_samples=len(sound),
                    read_window=lambda start, length: sound[start : start + length].tobytes(),
                    **fields,
                ),
                Screened(""),
                operator_call(),
                rules=None,
                session=session,
                aligner=session if aligned else None,
                preparation=preparation,
                log=RequestLog(),
            )
        finally:
            await preparation.close()

    return asyncio.run(ask())


def loud(seconds: float) -> Any:
    return np.full(round(seconds * RATE), 5000, np.int16)


def test_a_long_part_is_cut_in_a_pause_and_texts_are_joined() -> None:
    sound = np.concatenate([loud(55), np.zeros(RATE, np.int16), loud(20)])
    engine = ScriptedEngine("Guten Tag.", "Es regnet.")
    result = run(engine, sound)
    first, second = (len(window.samples) / 2 / RATE for window in engine.windows)
    assert 55 < first < 56
    assert first + second == pytest.approx(76)
    assert (result.text, result.language) == ("Guten Tag. Es regnet.", "de")
    assert [(each.start, round(each.end)) for each in result.segments] == [(0, 56), (first, 76)]


def test_only_parts_with_speech_are_transcribed() -> None:
    engine = ScriptedEngine("你好。", "再见。")
    parts = ((RATE, 3 * RATE), (50 * RATE, 51 * RATE))
    result = run(engine, loud(60), speech=parts, language="de")
    assert [len(window.samples) // 2 for window in engine.windows] == [2 * RATE, RATE]
    assert result.text == "你好。再见。"
    assert [(each.start, each.end) for each in result.segments] == [(1, 3), (50, 51)]
    assert {window.language for window in engine.windows} == {"de"}


def test_aligned_words_belong_to_their_segments_and_have_the_times_of_the_file() -> None:
    result = run(
        ScriptedEngine("Guten Tag!", "…"),
        loud(9),
        aligned=True,
        speech=((RATE, 2 * RATE), (6 * RATE, 7 * RATE)),
    )
    first, second = result.segments
    assert first.words == (
        TimedWord(text="Guten", start=1, end=2),
        TimedWord(text=" Tag!", start=2, end=3),
    )
    assert (second.text, second.words) == (" …", ())


def test_words_are_timed_by_an_aligner_that_the_caller_may_use() -> None:
    asked: list[Any] = []
    models = [
        SimpleNamespace(name=name, facts=read_model(transcription_model(name)))
        for name in ("parakeet_ctc", "qwen3_asr", "sortformer")
    ]
    aligner = SimpleNamespace(name="times", facts=read_model(transcription_model("qwen3_forced_aligner")))
    call: Any = SimpleNamespace(models=EVERY_MODEL)
    service: Any = InferenceService.__new__(InferenceService)
    service.models = SimpleNamespace(served=lambda allowed: asked.append(allowed) or models)
    assert service._first_for("alignment", call) is None
    assert service._first_for("diarization", call) == "sortformer"
    models.append(aligner)
    assert service._first_for("alignment", call) == "times"
    assert asked == [EVERY_MODEL] * 3


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({}, {}),
        ({"word_times": True}, {"alignment": "timestamp_granularities"}),
        (
            {"word_times": True, "diarized": True},
            {"alignment": "response_format", "diarization": "response_format"},
        ),
    ],
)
def test_a_request_names_the_helpers_it_needs(fields: dict[str, bool], missing: dict[str, str]) -> None:
    request = TranscriptionRequest(
        model="qwen3_asr", num_samples=0, read_window=lambda start, length: b"", **fields
    )
    session = ModelSession(None, QWEN, name="qwen3_asr")  # type: ignore[arg-type]
    assert {purpose: error.param for purpose, error in helpers_of(request, session)} == missing


@given(st.text(max_size=40))
def test_words_joined_are_the_text(text: str) -> None:
    words = alignable_words(text)
    assert "".join(words) == (text if words else "")
    assert all(any(char.isalnum() for char in word) for word in words)


def test_segments_end_with_sentences_and_before_pauses() -> None:
    times = [("One", 0, 1), (" two.", 1, 2), (" Three", 2, 3), (" four", 4.5, 5), (" five", 5, 30)]
    words = [TimedWord(text=text, start=start, end=end) for text, start, end in times]
    found = segments_of(words, seek=7)
    assert [segment.text for segment in found] == ["One two.", " Three", " four", " five"]
    assert [word for segment in found for word in segment.words] == words
    assert segments_of([], seek=0) == []


def test_tokens_make_words_across_scripts_and_divided_characters() -> None:
    pieces = [
        b" Caf",
        "é".encode()[:1],
        "é".encode()[1:],
        b",",
        b" (no",
        b")",
        "你好".encode(),
        "。".encode(),
    ]
    found = words_of_tokens(pieces, [float(at) for at in range(len(pieces) + 1)])
    assert [(word.text, word.start, word.end) for word in found] == [
        (" Café,", 0, 4),
        (" (no)", 4, 6),
        ("你好。", 6, 8),
    ]
