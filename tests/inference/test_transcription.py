"""Transcription of a file: retries and conditioning on earlier text.

Results are scripted, because a test cannot choose which of a real model's results are implausible.
"""

import asyncio

import pytest

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.formats.adapters import create_adapter
from mlxctl.inference.call_context import operator_call
from mlxctl.inference.preparation import PreparationPool
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.screening import Screened
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription.transcriber import transcribe
from mlxctl.ir import ModelCapabilities, SpeechTask, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models

ADAPTER = create_adapter(read_model(tiny_models.trained("whisper_words")), name="whisper_words")
RECIPE = ADAPTER.facts.transcription
assert RECIPE is not None
assert RECIPE.whisper is not None
TOKENS = RECIPE.whisper
WORD = next(iter(ADAPTER.vocabulary.encode("garden")))


class ScriptedEngine:
    def __init__(self, *answers: TranscribedWindow) -> None:
        self.answers = list(answers)
        self.windows: list[AudioWindow] = []

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        self.windows.append(window)
        return self.answers.pop(0)


def window_of(*words: int, logprob: float = -0.1, no_speech: float = 0.0) -> TranscribedWindow:
    ids = [TOKENS.first_time, *words, TOKENS.first_time + 25]
    return TranscribedWindow(
        token_ids=ids, language_id=TOKENS.languages["en"], mean_logprob=logprob, no_speech=no_speech
    )


def run(
    engine: ScriptedEngine, *, num_windows: int = 1, task: SpeechTask = "transcribe", prompt: str = ""
) -> TranscriptionResult:
    request = TranscriptionRequest(
        model="whisper_words",
        num_samples=num_windows * RECIPE.window_samples,
        read_window=lambda _, num_samples: bytes(2 * num_samples),
        task=task,
        prompt=prompt,
    )
    return asyncio.run(transcribe_with(request, engine))


async def transcribe_with(request: TranscriptionRequest, engine: ScriptedEngine) -> TranscriptionResult:
    preparation = PreparationPool()
    try:
        if request.prompt:
            await preparation.load("whisper_words", ADAPTER.facts, ModelCapabilities())
        return await transcribe(
            request,
            Screened(request.prompt),
            operator_call(),
            rules=None,
            session=ModelSession(engine, ADAPTER, name="whisper_words"),  # type: ignore[arg-type]
            preparation=preparation,
            log=RequestLog(),
        )
    finally:
        await preparation.close()


def test_unlikely_window_is_retried_hotter_and_conditions_the_next() -> None:
    engine = ScriptedEngine(window_of(WORD, logprob=-2), window_of(WORD), window_of(WORD))
    result = run(engine, num_windows=2)
    assert [window.temperature for window in engine.windows] == [0.0, 0.2, 0.0]
    # As in OpenAI's reference, with its times.
    assert [window.previous_ids for window in engine.windows] == [[], [], window_of(WORD).token_ids]
    assert [segment.temperature for segment in result.segments] == [0.2, 0.0]


def test_repetitive_window_is_retried() -> None:
    engine = ScriptedEngine(window_of(*[WORD] * 60), window_of(WORD))
    assert run(engine).segments[0].token_ids == (WORD,)
    assert [window.temperature for window in engine.windows] == [0.0, 0.2]


def test_result_of_last_temperature_is_kept_and_not_used_as_condition() -> None:
    engine = ScriptedEngine(*[window_of(WORD, logprob=-2)] * 6, window_of(WORD))
    result = run(engine, num_windows=2)
    assert [window.temperature for window in engine.windows] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.0]
    assert engine.windows[-1].previous_ids == []
    assert len(result.segments) == 2


def test_silent_window_has_no_segment() -> None:
    engine = ScriptedEngine(window_of(WORD, logprob=-2, no_speech=0.9), window_of(WORD))
    (segment,) = run(engine, num_windows=2).segments
    assert segment.seek == RECIPE.window_samples
    assert [window.temperature for window in engine.windows] == [0.0, 0.0]


def test_task_and_prompt_reach_the_engine() -> None:
    engine = ScriptedEngine(window_of(WORD))
    run(engine, task="translate", prompt="garden")
    assert (engine.windows[0].task, len(engine.windows[0].previous_ids) > 0) == ("translate", True)


def test_only_the_end_of_a_long_prompt_is_read() -> None:
    engine = ScriptedEngine(window_of(WORD))
    run(engine, prompt="garden " * 5000)
    room = TOKENS.context_length - TOKENS.max_tokens
    assert room // 2 < len(engine.windows[0].previous_ids) < room


def test_unknown_language_is_rejected() -> None:
    request = TranscriptionRequest(
        model="whisper_words", num_samples=1, read_window=lambda *_: b"", language="tlh"
    )
    with pytest.raises(InvalidRequest, match="it supports en") as error:
        asyncio.run(transcribe_with(request, ScriptedEngine()))
    assert error.value.param == "language"
